"""Pictures, recordings and files in a message, in its canonical form and as a server is sent them.

The canonical form names the bytes by their digest, so that the digest of a request on record does
not need them. They are put in when the request is sent, as parts of OpenAI's chat protocol, which
litellm converts for other providers.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt
from turnlog.events.model.content_parts import TEXT_TYPE, MediaKind

MediaBytes = Mapping[Digest, bytes]
"""The bytes of media by their digests."""

NO_BYTES: Final[MediaBytes] = MappingProxyType({})

_AUDIO_FORMATS: Final = {"audio/mpeg": "mp3"}
"""What the protocol calls a format that is not called by its media type."""

_KIND_NAMES: Final[Mapping[MediaKind, str]] = {
    "image": "picture",
    "audio": "recording",
    "file": "file",
}
"""What the line in the place of a part calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageMedia:
    """A picture, a recording or a file in a message, or the line in its place."""

    kind: MediaKind
    digest: Digest
    media_type: str
    at: int
    """Where it stands in the text of the message, in code points."""
    name: str | None = None
    note: str | None = None
    """The line in its place; None if the model is sent it."""
    size: int = field(default=0, compare=False)
    """Number of its bytes; 0 where a prompt is only shown."""

    def encode_plain(self) -> dict[str, JsonValue]:
        """Return the canonical form, which has no bytes."""
        if self.note is not None:
            return {"type": "note", "text": self.note}
        plain: dict[str, JsonValue] = {"type": self.kind, "digest": self.digest}
        plain["media_type"] = self.media_type
        return plain if self.name is None else {**plain, "name": self.name}

    def encode_sent(self, data: bytes) -> dict[str, JsonValue]:
        """Return the part of OpenAI's chat protocol with these bytes."""
        if self.media_type == TEXT_TYPE:  # Few servers take another file than PDF
            return {"type": "text", "text": f"{self.name or 'file.txt'}:\n{data.decode()}"}
        encoded = b64encode(data).decode()
        url = f"data:{self.media_type};base64,{encoded}"
        match self.kind:
            case "image":
                return {"type": "image_url", "image_url": {"url": url}}
            case "audio":
                subtype = self.media_type.partition("/")[2]
                sound: JsonValue = {
                    "data": encoded,
                    "format": _AUDIO_FORMATS.get(self.media_type, subtype),
                }
                return {"type": "input_audio", "input_audio": sound}
            case "file":
                name = self.name or "document.pdf"
                return {"type": "file", "file": {"filename": name, "file_data": url}}


def format_media_note(kind: MediaKind, name: str | None) -> str:
    """Return the line in the place of a part that is left out."""
    named = f": {name}" if name else ""
    return f"(a {_KIND_NAMES[kind]} is left out{named})"


def split_content(text: str, media: Iterable[MessageMedia]) -> Iterator[str | MessageMedia]:
    """Yield the texts and the media of a message in their order."""
    begin = 0
    for each in media:
        if text[begin : each.at]:
            yield text[begin : each.at]
        yield each
        begin = max(begin, each.at)
    if text[begin:]:
        yield text[begin:]


def encode_plain_content(text: str, media: Iterable[MessageMedia]) -> list[JsonValue]:
    """Return the canonical form of a content that has media."""
    return [
        {"type": "text", "text": each} if isinstance(each, str) else each.encode_plain()
        for each in split_content(text, media)
    ]


def encode_sent_content(
    text: str, media: Iterable[MessageMedia], data: MediaBytes
) -> str | list[JsonValue]:
    """Return a content as a server is sent it: a plain text if everything else is left out.

    Raises `Corrupt` where bytes are missing.
    """
    pieces = [
        each.note if isinstance(each, MessageMedia) and each.note is not None else each
        for each in split_content(text, media)
    ]
    texts = [each for each in pieces if isinstance(each, str)]
    if len(texts) == len(pieces):
        return "\n".join(texts)
    return [
        {"type": "text", "text": each}
        if isinstance(each, str)
        else each.encode_sent(_require_bytes(data, each.digest))
        for each in pieces
    ]


def _require_bytes(data: MediaBytes, digest: Digest) -> bytes:
    if digest not in data:
        raise Corrupt(f"media {digest}", "its bytes are not at hand")
    return data[digest]
