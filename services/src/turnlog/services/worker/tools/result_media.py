"""Stores the pictures, recordings and files of a tool's result, and names them for its event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Final

import structlog

from turnlog.events.model.content_parts import MAX_MEDIA_BYTES, TEXT_TYPE, MediaPart
from turnlog.events.store.media_chunks import iterate_bytes
from turnlog.events.store.ports import MediaStore
from turnlog.services.media.media_facts import inspect_media
from turnlog.services.media.media_types import find_media_kind
from turnlog.services.platform.concurrency import run_text_work
from turnlog.services.worker.tools.tool_server_types import AnswerMedia

MAX_RESULT_PARTS: Final = 32
"""Most media of one result that are stored."""

_log = structlog.get_logger("turnlog.tools")


async def store_result_media(
    store: MediaStore, tenant: str, media: Sequence[AnswerMedia], at: int
) -> tuple[MediaPart, ...]:
    """Store media and return their parts, which stand at the end of a text, `at`.

    What is too large, or one too many, is not stored: the text of the result has a line for it.
    """
    kept = [each for each in media if 0 < len(each.data) <= MAX_MEDIA_BYTES][:MAX_RESULT_PARTS]
    if len(kept) < len(media):
        _log.warning("result-media-left-out", parts=len(media) - len(kept))
    return tuple([await _store_part(store, tenant, each, at) for each in kept])


async def _store_part(store: MediaStore, tenant: str, media: AnswerMedia, at: int) -> MediaPart:
    stored = await store.put_media(tenant, iterate_bytes(media.data), most_bytes=MAX_MEDIA_BYTES)
    found, facts = await run_text_work(partial(inspect_media, media.data), len(media.data))
    # Any text is `text/plain` by its bytes; what its server calls it says more.
    media_type = media.media_type if found is None or found == TEXT_TYPE else found
    return MediaPart(
        kind=find_media_kind(found) if found else "file",
        digest=stored.digest,
        size=stored.size,
        media_type=media_type,
        name=media.name,
        at=at,
        **asdict(facts),
    )
