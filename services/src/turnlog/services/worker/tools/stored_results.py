"""Stores the text of a tool's result whole: as a blob, or in chunks if no message can hold it."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.codec import MAX_EVENT_BYTES
from turnlog.events.content import Digest
from turnlog.events.model.tool_events import ToolReturned, WholeResult
from turnlog.events.seals.leaf_sets import SEALED_BYTES, LeafSets
from turnlog.events.store.ports import BlobStore, MediaStore, TurnBlobStore
from turnlog.services.media.incoming_media import put_turn_media


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The stored text of a result, as its event names it."""

    digest: Digest
    whole: WholeResult | None
    """Names it if it is in chunks; a blob otherwise."""

    @property
    def blob(self) -> Digest | None:
        """The blob that has the text, if one can."""
        return None if self.whole else self.digest

    @property
    def note(self) -> str:
        """What a prompt says of a result that it can only have condensed."""
        if self.whole is None:
            return ""
        return f"\n(only this much of {self.whole.size} bytes; the whole is kept as {self.digest})"


async def store_result(
    blobs: TurnBlobStore, media: MediaStore, tenant: str, text: str, leaves: LeafSets | None
) -> StoredResult:
    """Store the text of a result, sealed under these keys unless they are None."""
    data = text.encode()
    if len(data) <= MAX_EVENT_BYTES - (SEALED_BYTES if leaves else 0):
        return StoredResult(await blobs.put_turn_blob(tenant, data, leaves), None)
    stored = await put_turn_media(media, tenant, data, leaves, most_bytes=len(data))
    return StoredResult(stored.digest, WholeResult(digest=stored.digest, size=stored.size))


async def load_result(
    blobs: BlobStore, media: MediaStore, tenant: str, returned: ToolReturned
) -> str | None:
    """Return the whole text of a result, or None if it has none; raises `Corrupt`."""
    if returned.whole is not None:
        return (await media.get_media(tenant, returned.whole.digest)).decode()
    if returned.result is not None:
        return (await blobs.get_blob(tenant, returned.result)).decode()
    return None
