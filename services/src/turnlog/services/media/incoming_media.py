"""Pictures, recordings and files that a model or a tool sent: stored, and named for their events.

The text beside them has a line for each, at its place. So a model that is sent no pictures knows
that there was one, and so does a later turn.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Final

from turnlog.events.model.content_parts import MAX_MEDIA_BYTES, TEXT_TYPE, MediaPart
from turnlog.events.seals.leaf_sets import LeafSets
from turnlog.events.store.media_chunks import StoredMedia, iterate_bytes, receive_media
from turnlog.events.store.ports import MediaStore
from turnlog.services.media.media_facts import inspect_media
from turnlog.services.media.media_types import find_media_kind
from turnlog.services.platform.concurrency import run_text_work

MAX_INCOMING_PARTS: Final = 32
"""Most media of one answer or of one result that are stored."""

MAX_INCOMING_BYTES: Final = 2 * MAX_MEDIA_BYTES
"""Most bytes of all media of one answer or of one result, as of those of a turn by default."""


@dataclass(frozen=True, slots=True)
class IncomingMedia:
    """A picture, a recording or a file as it was sent."""

    data: bytes = field(repr=False)
    media_type: str
    """Its type, as the sender calls it."""
    name: str | None = None


def format_media_line(name: str | None, media_type: str, size: int) -> str:
    """Return the line that a text has in the place of media."""
    named = f"{name}, " if name else ""
    return f"({named}{media_type}, {size} bytes)"


def measure_decoded(encoded: str) -> int:
    """Return how many bytes a text of base64 has, without decoding it."""
    return len(encoded) // 4 * 3 - encoded[-2:].count("=")


async def put_turn_media(
    store: MediaStore, tenant: str, data: bytes, leaves: LeafSets | None, *, most_bytes: int
) -> StoredMedia:
    """Store what belongs to a turn, sealed under its keys unless they are None.

    The digest of a sealed item is keyed. Raises as `MediaStore.put_media` does.
    """
    if leaves is None:
        return await store.put_media(tenant, iterate_bytes(data), most_bytes=most_bytes)
    received = await receive_media(iterate_bytes(data), most_bytes=most_bytes, expected=None)
    digest, sealed = await store.seal_received(tenant, received, leaves)
    await store.put_received(tenant, sealed)
    return StoredMedia(digest, len(data))


async def store_incoming_media(
    store: MediaStore, tenant: str, media: IncomingMedia, at: int, leaves: LeafSets | None
) -> MediaPart:
    """Store media of a turn and return its part, which stands in a text at `at`."""
    stored = await put_turn_media(store, tenant, media.data, leaves, most_bytes=MAX_MEDIA_BYTES)
    found, facts = await run_text_work(partial(inspect_media, media.data), len(media.data))
    # Any text is `text/plain` by its bytes; what its sender calls it says more.
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
