"""What the bytes of a picture, a recording or a file say of themselves.

Prompts count tokens by it and read no bytes, so it is recorded when a part is submitted. What the
bytes do not say is unknown: a damaged file is the provider's to refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from math import ceil
from struct import error as struct_error
from struct import unpack_from
from typing import Final

from turnlog.events.model.content_parts import TEXT_TYPE
from turnlog.services.media.media_types import HEAD_BYTES, detect_media_type

MAX_SIDE: Final = 100_000
"""The largest width or height that is believed; the sizes of pictures are below."""

MAX_STEPS: Final = 10_000
"""Segments, chunks and filling bytes that are looked through; a picture or a recording has dozens.

Without a limit, 25 MB of filling bytes would take seconds.
"""

MAX_PAGES: Final = 100_000
"""Most pages that are counted."""

_PAGE: Final = re.compile(rb"/Type\s*/Page(?![A-Za-z])")

_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The markers of segments with the size of the picture."""

_JPEG_BARE_MARKERS: Final = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers without a segment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaFacts:
    """Sizes that the bytes say; None where they do not."""

    width: int | None = None
    height: int | None = None
    pages: int | None = None
    seconds: int | None = None


def inspect_media(data: bytes) -> tuple[str | None, MediaFacts]:
    """Return the type of bytes, None if it is none that is stored, and what they say."""
    media_type = detect_media_type(data[:HEAD_BYTES])
    if media_type is None or (media_type == TEXT_TYPE and not _is_text(data)):
        return None, MediaFacts()
    return media_type, read_media_facts(media_type, data)


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


def read_media_facts(media_type: str, data: bytes) -> MediaFacts:
    """Return what bytes of a type say of themselves."""
    try:
        if read_size := _SIZE_READERS.get(media_type):
            return _build_size(read_size(data))
        if media_type == "application/pdf":
            return MediaFacts(pages=sum(1 for _ in islice(_PAGE.finditer(data), MAX_PAGES)) or None)
        if media_type == "audio/wav":
            return MediaFacts(seconds=_read_wav_seconds(data))
    except (struct_error, IndexError):  # They end too early.
        pass
    return MediaFacts()


def _build_size(size: tuple[int, int] | None) -> MediaFacts:
    if size is None or not all(0 < side <= MAX_SIDE for side in size):
        return MediaFacts()
    return MediaFacts(width=size[0], height=size[1])


def _read_png_size(data: bytes) -> tuple[int, int] | None:
    if data[12:16] != b"IHDR":
        return None
    width, height = unpack_from(">II", data, 16)
    return width, height


def _read_gif_size(data: bytes) -> tuple[int, int] | None:
    width, height = unpack_from("<HH", data, 6)
    return width, height


def _read_jpeg_size(data: bytes) -> tuple[int, int] | None:
    place = 2
    for _ in range(MAX_STEPS):
        if data[place : place + 1] != b"\xff":
            break
        marker = data[place + 1]
        if marker in _JPEG_FRAMES:
            height, width = unpack_from(">HH", data, place + 5)
            return width, height
        place += 2
        if marker == 0xFF:  # noqa: PLR2004 - a filling byte before a marker
            place -= 1
        elif marker not in _JPEG_BARE_MARKERS:
            (length,) = unpack_from(">H", data, place)
            place += length
    return None


def _read_webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 ":
            width, height = unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = unpack_from("<I", data, 21)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X":
            low_width, high_width, low_height, high_height = unpack_from("<HBHB", data, 24)
            return (high_width << 16 | low_width) + 1, (high_height << 16 | low_height) + 1
        case _:
            return None


_SIZE_READERS: Final[Mapping[str, Callable[[bytes], tuple[int, int] | None]]] = {
    "image/png": _read_png_size,
    "image/gif": _read_gif_size,
    "image/jpeg": _read_jpeg_size,
    "image/webp": _read_webp_size,
}


def _read_wav_seconds(data: bytes) -> int | None:
    chunks = dict(islice(_iterate_riff_chunks(data), MAX_STEPS))
    if b"fmt " not in chunks or b"data" not in chunks:
        return None
    begin, _ = chunks[b"fmt "]
    (per_second,) = unpack_from("<I", data, begin + 8)
    _, length = chunks[b"data"]
    return ceil(min(length, len(data)) / per_second) if per_second else None


def _iterate_riff_chunks(data: bytes) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """Yield the name of each chunk with its first byte and its length."""
    place = 12
    while place + 8 <= len(data):
        name, length = unpack_from("<4sI", data, place)
        yield name, (place + 8, length)
        place += 8 + length + length % 2
