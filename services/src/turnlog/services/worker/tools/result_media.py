"""Stores the pictures, recordings and files of a tool's result, and names them for its event."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from turnlog.events.model.content_parts import MAX_MEDIA_BYTES, MediaPart
from turnlog.events.seals.leaf_sets import LeafSets
from turnlog.events.store.ports import MediaStore
from turnlog.projections.quotas.media_limits import MediaLimitReached
from turnlog.services.media.incoming_media import (
    MAX_INCOMING_PARTS,
    IncomingMedia,
    store_incoming_media,
)

_log = structlog.get_logger("turnlog.tools")


async def store_result_media(
    store: MediaStore,
    tenant: str,
    media: Sequence[IncomingMedia],
    at: int,
    leaves: LeafSets | None,
) -> tuple[MediaPart, ...]:
    """Store media and return their parts, which stand at the end of a text, `at`.

    They are sealed under the keys of the turn unless these are None.
    What is too large, or one too many, or over the tenant's limit, is not stored: the text of the
    result has a line for it.
    """
    kept = [each for each in media if 0 < len(each.data) <= MAX_MEDIA_BYTES][:MAX_INCOMING_PARTS]
    if len(kept) < len(media):
        _log.warning("result-media-left-out", parts=len(media) - len(kept))
    parts = list[MediaPart]()
    for each in kept:
        try:
            parts.append(
                await store_incoming_media(
                    store=store, tenant=tenant, media=each, at=at, leaves=leaves
                )
            )
        except MediaLimitReached as reached:
            _log.warning("result-media-left-out", parts=1, why=reached.detail)
    return tuple(parts)
