"""Stores the pictures, recordings and files of a tool's result, and names them for its event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from turnlog.events.model.content_parts import MediaKind, MediaPart
from turnlog.events.store.media_chunks import iterate_bytes
from turnlog.events.store.ports import MediaStore
from turnlog.services.media.media_types import HEAD_BYTES, TEXT_TYPE, detect_media_type
from turnlog.services.worker.tools.tool_server_types import AnswerMedia

MAX_RESULT_PARTS: Final = 32
"""Most media of one result that are stored."""

MAX_PART_BYTES: Final = 25 * 1024 * 1024
"""Bytes of the largest media of a result that are stored."""

_log = structlog.get_logger("turnlog.tools")


async def store_result_media(
    store: MediaStore, tenant: str, media: Sequence[AnswerMedia], at: int
) -> tuple[MediaPart, ...]:
    """Store media and return their parts, which stand at the end of a text, `at`.

    What is too large, or one too many, is not stored: the text of the result has a line for it.
    """
    kept = [each for each in media if 0 < len(each.data) <= MAX_PART_BYTES][:MAX_RESULT_PARTS]
    if len(kept) < len(media):
        _log.warning("result-media-left-out", parts=len(media) - len(kept))
    return tuple([await _store_part(store, tenant, each, at) for each in kept])


async def _store_part(store: MediaStore, tenant: str, media: AnswerMedia, at: int) -> MediaPart:
    stored = await store.put_media(tenant, iterate_bytes(media.data), most_bytes=MAX_PART_BYTES)
    found = detect_media_type(media.data[: HEAD_BYTES * 64])
    # Any text is `text/plain` by its bytes; what its server calls it says more.
    media_type = media.media_type if found is None or found == TEXT_TYPE else found
    return MediaPart(
        kind=_choose_kind(found),
        digest=stored.digest,
        size=stored.size,
        media_type=media_type,
        name=media.name,
        at=at,
    )


def _choose_kind(found: str | None) -> MediaKind:
    """Return what a model is sent bytes as, by the type that they are of."""
    match (found or "").partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case _:
            return "file"
