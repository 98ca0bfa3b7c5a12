"""Read the pictures, recordings and files of an answer, in the spellings of servers.

Pictures come as `images` beside the text or as parts of it, a recording as pieces of `audio` with
its transcript. The bytes stay in base64 here: whoever stores them decodes them in a thread.
"""

from __future__ import annotations

import re
from typing import Final

from turnlog.services.media.incoming_media import MAX_INCOMING_PARTS
from turnlog.services.worker.model.answers.chunk_fields import (
    encode_unread,
    get_field,
    read_sequence,
    read_text,
)
from turnlog.services.worker.model.model_types import (
    MAX_ENCODED_MEDIA,
    RAW_SOUND_TYPE,
    MediaDelta,
    ModelFailure,
)

_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)

_MAX_URL_HEAD: Final = 256
"""Characters before the bytes of a `data:` URL; looking through a longer URL would take seconds."""

_MAX_ADDRESS: Final = 4_096
"""Characters of the longest address of a picture that is recorded in the text."""

_HOLDERS: Final = ("audio", "input_audio", "source", "inline_data")
"""Where a part has its bytes, if not itself: OpenAI's, Anthropic's and Gemini's words."""


class AnswerMediaReader:
    """The pictures, recordings and files of one answer so far."""

    def __init__(self) -> None:
        self._known: set[int] = set()
        """Hashes of what has come: some servers repeat all pictures in each chunk."""
        self._sound: list[str] = []
        self._sound_size = 0

    def __bool__(self) -> bool:
        return bool(self._known or self._sound_size)

    def read_images(self, delta: object) -> list[str | MediaDelta]:
        """Return the pictures beside a text; an address, which is not fetched, is a text."""
        found = [self.read_part(each) for each in read_sequence(get_field(delta, "images"))]
        return [each for each in found if each]

    def read_part(self, part: object) -> str | MediaDelta:
        """Return the media that a part of an answer is; empty if it has come already.

        Raises `ModelFailure` if the part is none that is read.
        """
        found = _read_media_part(part)
        if isinstance(found, str):
            return found
        known = hash(found)
        if known in self._known:
            return ""
        self._known.add(known)
        if len(self._known) > MAX_INCOMING_PARTS:
            raise ModelFailure("too_long", f"it has more than {MAX_INCOMING_PARTS} pictures")
        return found

    def read_sound(self, delta: object) -> str:
        """Add a piece of a recording, and return what is said in it."""
        sound = get_field(delta, "audio")
        if piece := read_text(get_field(sound, "data")):
            self._sound_size += len(piece)
            if self._sound_size > MAX_ENCODED_MEDIA:
                raise ModelFailure("too_long", f"it has more than {MAX_ENCODED_MEDIA} of sound")
            self._sound.append(piece)
        return read_text(get_field(sound, "transcript"))

    def pop_recording(self) -> MediaDelta | None:
        """Return the whole recording, once its last piece has come; None if there is none."""
        sound, self._sound = self._sound, []
        return MediaDelta(tuple(sound), RAW_SOUND_TYPE) if sound else None


def _read_media_part(part: object) -> str | MediaDelta:
    url = get_field(part, "image_url")
    if address := read_text(url) or read_text(get_field(url, "url")):
        return _read_url(address, part)
    file = get_field(part, "file")
    if encoded := read_text(get_field(file, "file_data")):
        return _read_url(encoded, part, read_text(get_field(file, "filename")) or None)
    for holder in (*(get_field(part, name) for name in _HOLDERS), part):
        if encoded := read_text(get_field(holder, "data")):
            return _build_delta(encoded, _read_type(holder))
    raise _build_failure(part)


def _build_failure(part: object) -> ModelFailure:
    kind = read_text(get_field(part, "type"))[:64]
    detail = f"the answer has a part of type {kind!r}, which is not read"
    return ModelFailure("malformed", detail, unread=encode_unread(part))


def _read_url(url: str, part: object, name: str | None = None) -> str | MediaDelta:
    if begun := _DATA_URL.match(url, 0, _MAX_URL_HEAD):
        return _build_delta(url[begun.end() :], begun[1], name)
    if url.startswith(("http://", "https://")) and len(url) <= _MAX_ADDRESS:
        return f"(image: {url})"
    raise _build_failure(part)


def _build_delta(encoded: str, media_type: str, name: str | None = None) -> MediaDelta:
    if len(encoded) > MAX_ENCODED_MEDIA:
        raise ModelFailure("too_long", f"a picture of it is more than {MAX_ENCODED_MEDIA} bytes")
    return MediaDelta((encoded,), media_type, name)


def _read_type(holder: object) -> str:
    named = get_field(holder, "media_type") or get_field(holder, "mime_type")
    sound = read_text(get_field(holder, "format"))
    return read_text(named) or (f"audio/{sound}" if sound else "")
