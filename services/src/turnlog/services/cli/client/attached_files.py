"""Files that a command attaches to a turn: they are uploaded, or sent with a preview."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turnlog.contract.session_requests import MediaPartInput, TextPartInput, TurnPartInput
from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.services.cli.client.service_client import ServiceClient
from turnlog.services.media.media_types import MEDIA_TYPES, detect_media_type, find_media_kind
from turnlog.services.platform.concurrency import run_in_thread

MediaInput = dict[str, str]
"""A part of a turn by the digest of its upload, as the API takes it."""


@dataclass(frozen=True, slots=True)
class PreviewMessage:
    """The message of a turn that does not exist yet: a text, or parts with the text among them."""

    text: str | None = None
    parts: list[TurnPartInput] | None = None


MAX_SENT_BYTES: Final = 5_000_000
"""Bytes of the files that a preview sends; in base64 they fit in a request. A file that does not
fit beside those before it is named by its digest, since a preview stores nothing.
"""


async def upload_files(service: ServiceClient, files: Sequence[Path]) -> list[MediaInput]:
    """Upload files, and return the parts that name them; raises `Refused` for one that is none."""
    return [await _upload_file(service, file) for file in files]


async def _upload_file(service: ServiceClient, file: Path) -> MediaInput:
    content = await run_in_thread(lambda: _read_file(file))
    stored = await service.upload_bytes(content)
    kind = find_media_kind(stored.media_type)
    return {"type": kind, "digest": stored.digest, "name": file.name}


def read_preview_message(text: str | None, files: Sequence[Path]) -> PreviewMessage:
    """Return the message of a turn that is previewed; raises `Refused` for what is no media."""
    if not files:
        return PreviewMessage(text)
    parts: list[TurnPartInput] = [TextPartInput(type="text", text=text)] if text else []
    left = MAX_SENT_BYTES
    for file in files:
        content = _read_file(file)
        media_type = detect_media_type(content)
        if media_type is None:
            detail = f"{file}: the bytes are of no known type"
            fix = f"attach one of {', '.join(MEDIA_TYPES)}"
            raise Refused("unsupported-media", detail, field="--attach", fix=fix)
        is_sent = len(content) <= left
        left -= len(content) if is_sent else 0
        part = MediaPartInput(
            type=find_media_kind(media_type),
            data=b64encode(content).decode() if is_sent else None,
            digest=None if is_sent else compute_digest(content),
            name=file.name,
        )
        parts.append(part)
    return PreviewMessage(parts=parts)


def _read_file(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        detail = f"{file}: {error.strerror}"
        raise Refused("invalid", detail, field="--attach", fix="name a file") from None
