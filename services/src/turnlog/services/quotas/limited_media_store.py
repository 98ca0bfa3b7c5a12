"""A media store in which the media of a tenant have no more bytes together than its limit."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass

from turnlog.events.content import Digest
from turnlog.events.seals.leaf_sets import LeafSets
from turnlog.events.store.media_chunks import ReceivedMedia, StoredMedia, receive_media
from turnlog.events.store.ports import MediaStore
from turnlog.services.quotas.media_limit_service import MediaLimitService


@dataclass(frozen=True, slots=True)
class LimitedMediaStore:
    """The store of a process: whatever stores media does it by this one."""

    store: MediaStore
    limits: MediaLimitService

    async def put_media(
        self,
        tenant: str,
        data: AsyncIterable[bytes],
        *,
        most_bytes: int,
        expected: Digest | None = None,
    ) -> StoredMedia:
        """See `MediaStore.put_media`; raises `MediaLimitReached` also, and stores nothing then.

        An item that is stored already needs no room. Storing it again brings back what it lacks.
        """
        # Read before anything else is awaited: what a connection brought is lost with it.
        received = await receive_media(data, most_bytes=most_bytes, expected=expected)
        return await self.put_received(tenant, received)

    async def put_received(self, tenant: str, received: ReceivedMedia) -> StoredMedia:
        """See `MediaStore.put_received`; raises as `put_media` does."""
        balance = await self.limits.load_balance(tenant)
        if balance.limit is None:
            return await self.store.put_received(tenant, received)
        await self.limits.count_if_due(tenant, balance)
        await self.limits.reserve_item(tenant, received.item)
        stored = await self.store.put_received(tenant, received)
        await self.limits.settle_item(tenant, stored.digest, is_stored=True)
        return stored

    async def seal_received(
        self, tenant: str, received: ReceivedMedia, leaves: LeafSets
    ) -> tuple[Digest, ReceivedMedia]:
        """See `MediaStore.seal_received`."""
        return await self.store.seal_received(tenant, received, leaves)

    async def seal_upload(self, tenant: str, received: ReceivedMedia) -> ReceivedMedia:
        """See `MediaStore.seal_upload`."""
        return await self.store.seal_upload(tenant, received)

    async def get_media(self, tenant: str, digest: Digest) -> bytes:
        """See `MediaStore.get_media`."""
        return await self.store.get_media(tenant, digest)

    def stream_media(self, tenant: str, digest: Digest) -> AsyncGenerator[bytes]:
        """See `MediaStore.stream_media`."""
        return self.store.stream_media(tenant, digest)

    async def find_media(self, tenant: str, digest: Digest) -> StoredMedia | None:
        """See `MediaStore.find_media`."""
        return await self.store.find_media(tenant, digest)

    def iterate_media(self, tenant: str) -> AsyncGenerator[StoredMedia]:
        """See `MediaStore.iterate_media`."""
        return self.store.iterate_media(tenant)
