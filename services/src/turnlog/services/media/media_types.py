"""Which types of media there are, and how their first bytes tell them apart.

What a sender calls its bytes is compared with what they are: a page that says it is a picture would
otherwise be served to a browser, and a provider refuses a request whose picture is none.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.errors import Refused
from turnlog.events.model.content_parts import TEXT_TYPE, MediaKind
from turnlog.projections.blueprint.sent_names import quote_sent_name

UNSPECIFIED_TYPE: Final = "application/octet-stream"
"""What a sender calls bytes whose type it leaves open."""

_SIGNATURES: Final = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "application/pdf": re.compile(rb"%PDF-"),
    "audio/wav": re.compile(rb"RIFF.{4}WAVE", re.DOTALL),
    # A tag, or the beginning of a frame of layer III
    "audio/mpeg": re.compile(rb"ID3[\x02-\x04]|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]"),
    "audio/ogg": re.compile(rb"OggS"),
    "audio/webm": re.compile(rb"\x1aE\xdf\xa3"),
}
"""How the bytes of each type begin; all but texts."""

MEDIA_TYPES: Final = (*_SIGNATURES, TEXT_TYPE)
"""The types that are stored."""

_OTHER_NAMES: Final = {
    "image/jpg": "image/jpeg",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "application/ogg": "audio/ogg",
}
"""Names in use for a type that is stored under its registered one."""

HEAD_BYTES: Final = 16
"""Bytes that tell the type of any media."""


def detect_media_type(head: bytes) -> str | None:
    """Return the type of media from its first bytes, `HEAD_BYTES` or more; None if it is none.

    A text has no NUL, which the log could not store.
    """
    for media_type, signature in _SIGNATURES.items():
        if signature.match(head):
            return media_type
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None
    return None if b"\0" in head else TEXT_TYPE


def find_media_kind(media_type: str) -> MediaKind:
    """Return what a model is sent bytes of a type as."""
    match media_type.partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case _:
            return "file"


def parse_media_type(announced: str | None) -> str | None:
    """Return the type that a sender announced; None if it leaves the type open.

    Raises `Refused` for one that is not stored.
    """
    name = (announced or UNSPECIFIED_TYPE).partition(";")[0].strip().lower()
    known = _OTHER_NAMES.get(name, name)
    if known == UNSPECIFIED_TYPE:
        return None
    if known not in MEDIA_TYPES:
        detail = f"bytes of type {quote_sent_name(name)} are not taken"
        fix = f"send one of {', '.join(MEDIA_TYPES)}"
        raise Refused("unsupported-media", detail, field="Content-Type", fix=fix)
    return known


@dataclass
class TypedBytes:
    """The bytes of a media item while they arrive, whose type must be the announced one."""

    announced: str | None
    """None if the sender leaves it open."""
    media_type: str | None = None
    """What they are; None until the first bytes have arrived."""
    _text: codecs.IncrementalDecoder = field(default_factory=codecs.getincrementaldecoder("utf-8"))

    async def check_pieces(self, pieces: AsyncIterable[bytes]) -> AsyncGenerator[bytes]:
        """Yield the pieces once their type is known; raises `Refused` if it is another or none."""
        head = b""
        async for piece in pieces:
            head += piece
            if self.media_type is None:
                if len(head) < HEAD_BYTES:
                    continue
                self.media_type = self._require_type(head)
            self._check_text(head)
            yield head
            head = b""
        if self.media_type is None:
            if not head:
                raise Refused("invalid", "there are no bytes", field="body", fix="send some")
            self.media_type = self._require_type(head)
        self._check_text(head, final=True)
        yield head

    def _require_type(self, head: bytes) -> str:
        found = detect_media_type(head)
        if found is None:
            detail, fix = "the bytes are of no known type", f"send one of {', '.join(MEDIA_TYPES)}"
            raise Refused("unsupported-media", detail, field="body", fix=fix)
        if self.announced not in {None, found}:
            detail = f"the bytes are {found}, not {self.announced}"
            fix = "send the type that they are, or application/octet-stream"
            raise Refused("media-type-differs", detail, field="Content-Type", fix=fix)
        return found

    def _check_text(self, piece: bytes, *, final: bool = False) -> None:
        if self.media_type != TEXT_TYPE:
            return
        try:
            text = self._text.decode(piece, final)
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            detail, fix = "the bytes are no text", "send a text in UTF-8, without NUL"
            raise Refused("media-type-differs", detail, field="body", fix=fix)
