"""Pictures, recordings and files that a seed draws, and what a model is sent of them."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.types import Message

from tests.services.media.media_samples import SAMPLES
from turnlog.contract.session_requests import MediaPartInput
from turnlog.events.content import Digest, compute_digest
from turnlog.events.model.content_parts import MediaKind

LARGE_SHARE: Final = 0.05
"""The share of pictures that are stored in two chunks."""

LARGE_BYTES: Final = 530_000

_TYPES: Final[Mapping[MediaKind, str]] = {
    "image": "image/png",
    "audio": "audio/wav",
    "file": "application/pdf",
}

_FILE_NAME: Final = "a.pdf"
"""A file is sent under its name, so the canonical form is known by what was sent."""


@dataclass(frozen=True, slots=True)
class SimulatedMedia:
    """Bytes that nobody else has."""

    kind: MediaKind
    data: bytes

    @property
    def digest(self) -> Digest:
        return compute_digest(self.data)

    @property
    def media_type(self) -> str:
        return _TYPES[self.kind]

    def build_part(self, *, by_digest: bool) -> MediaPartInput:
        """Build the part of a turn that has the bytes, or names them."""
        return MediaPartInput(
            type=self.kind,
            digest=self.digest if by_digest else None,
            data=None if by_digest else b64encode(self.data).decode(),
            name=_FILE_NAME if self.kind == "file" else None,
        )

    def build_upload(self) -> Request:
        """Build a request whose body is the bytes, in two pieces."""
        half = len(self.data) // 2
        pieces: list[Message] = [
            {"type": "http.request", "body": self.data[:half], "more_body": True},
            {"type": "http.request", "body": self.data[half:], "more_body": False},
        ]

        async def receive() -> Message:
            return pieces.pop(0)

        headers = [(b"content-type", self.media_type.encode())]
        return Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, receive)


def draw_media(chance: random.Random, *kinds: MediaKind) -> SimulatedMedia:
    """Draw media of one of these kinds."""
    kind = chance.choice(kinds)
    is_large = kind == "image" and chance.random() < LARGE_SHARE
    rest = chance.randbytes(8) * (LARGE_BYTES // 8 if is_large else 1)
    return SimulatedMedia(kind, SAMPLES[_TYPES[kind]] + rest)


def restore_content(content: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    """Return the canonical form of a content as a model is sent it."""
    if not isinstance(content, list):
        return content
    return [_restore_piece(piece) for piece in cast("list[object]", content)]


def _restore_piece(piece: Any) -> Mapping[str, object]:  # noqa: ANN401 - JSON of any shape
    match piece:
        case {"type": "image_url", "image_url": {"url": url}}:
            return _describe_url("image", url)
        case {"type": "file", "file": {"filename": name, "file_data": url}}:
            return {**_describe_url("file", url), "name": name}
        case {"type": "input_audio", "input_audio": {"data": data, "format": subtype}}:
            digest = compute_digest(b64decode(data))
            return {"type": "audio", "digest": digest, "media_type": f"audio/{subtype}"}
        case _:
            return dict(piece)


def _describe_url(kind: MediaKind, url: str) -> dict[str, object]:
    head, _, data = url.partition(";base64,")
    digest = compute_digest(b64decode(data))
    return {"type": kind, "digest": digest, "media_type": head.removeprefix("data:")}
