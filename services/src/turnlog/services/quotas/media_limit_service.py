"""The limit of a tenant's stored media: set, reserved from and settled, for one process.

Every event is appended by compare-and-set on the one history of the tenant, so processes that store
at the same time see each other's reservations.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Never

from turnlog.events.codec import CommandRef
from turnlog.events.content import Digest
from turnlog.events.model.quota_events import (
    MEDIA_LIMIT_FAMILY,
    MediaBalance,
    MediaLimitEvent,
    MediaReservation,
)
from turnlog.events.registry import LibraryEvent
from turnlog.events.store.media_chunks import StoredMedia
from turnlog.events.store.ports import MediaStore
from turnlog.projections.quotas.media_limits import (
    MediaCount,
    MediaLimitReached,
    TenantMedia,
    count_media,
    edit_media_limit,
    find_media_reservation,
    is_recount_due,
    list_old_reservations,
    read_media_balance,
    reserve_media,
    settle_media,
)
from turnlog.services.command_handling.idempotent_commands import (
    CommandMetadata,
    IdempotentCommandHandler,
)
from turnlog.services.command_handling.tenant_histories import (
    LibraryParts,
    create_last_event_handler,
)

STORER: Final = CommandMetadata("media")


@dataclass
class MediaLimitService:
    """The media limits of all tenants, for one process."""

    parts: LibraryParts
    store: MediaStore
    """The store below the limit, in which is looked up what is stored."""
    _balances: IdempotentCommandHandler[TenantMedia, Never] = field(init=False)

    def __post_init__(self) -> None:
        self._balances = create_last_event_handler(self.parts, read_media_balance, "media limits")

    async def load_balance(self, tenant: str) -> MediaBalance:
        """Return the limit of a tenant as it is now, and what of it is used."""
        state = await self._balances.load_state(tenant, MEDIA_LIMIT_FAMILY)
        return (state or TenantMedia()).balance

    async def reconcile_balance(self, tenant: str) -> TenantMedia:
        """Settle what processes that died were storing, and return the balance after that."""
        balance = await self.load_balance(tenant)
        await self.count_if_due(tenant, balance)
        for old in list_old_reservations(balance, self.parts.clock()):
            found = await self.store.find_media(tenant, old.digest)
            await self.settle_item(tenant, old.digest, is_stored=found is not None)
        return await self._balances.load_state(tenant, MEDIA_LIMIT_FAMILY) or TenantMedia()

    async def edit_limit(
        self,
        tenant: str,
        limit: int | None,
        metadata: CommandMetadata,
        command: CommandRef | None = None,
    ) -> TenantMedia:
        """Set or remove the limit; what a tenant without one has stored is counted first."""

        async def decide(state: TenantMedia | None) -> Sequence[LibraryEvent]:
            balance, count = (state or TenantMedia()).balance, MediaCount()
            if balance.limit is None and limit is not None:
                count = await self._count_media(tenant, balance)
            event = edit_media_limit(balance, limit, count, self.parts.clock())
            return () if event is None else (event,)

        handled = await self._balances.handle(
            tenant, MEDIA_LIMIT_FAMILY, decide, metadata, command=command
        )
        return handled.state or TenantMedia()

    async def count_if_due(self, tenant: str, balance: MediaBalance) -> None:
        """Count the media again, if uploads that were running at the first limit have ended."""
        if not is_recount_due(balance, self.parts.clock()):
            return

        async def decide(latest: MediaBalance) -> MediaLimitEvent | None:
            if not is_recount_due(latest, self.parts.clock()):
                return None
            return count_media(latest, await self._count_media(tenant, latest))

        await self._change_balance(tenant, decide)

    async def _count_media(self, tenant: str, balance: MediaBalance) -> MediaCount:
        """Count what is stored; what is reserved counts when it is settled."""
        stored = items = 0
        async for item in self.store.iterate_media(tenant):
            if not find_media_reservation(balance, item.digest):
                stored, items = stored + item.size, items + 1
        return MediaCount(stored, items)

    async def reserve_item(self, tenant: str, item: StoredMedia) -> None:
        """Reserve the bytes of an item that is about to be stored; raises `MediaLimitReached`.

        One that is stored already needs none.
        """
        at = self.parts.clock().isoformat()
        wanted = MediaReservation(digest=item.digest, size=item.size, at=at)

        async def decide(balance: MediaBalance) -> MediaLimitEvent | None:
            # Looked up after the balance was read: whatever is settled in it is found.
            if await self.store.find_media(tenant, item.digest):
                return None
            return reserve_media(balance, wanted)

        try:
            await self._change_balance(tenant, decide)
        except MediaLimitReached:
            balance = await self.load_balance(tenant)
            if not list_old_reservations(balance, self.parts.clock()):
                raise
            await self.reconcile_balance(tenant)
            await self._change_balance(tenant, decide)

    async def settle_item(self, tenant: str, digest: Digest, *, is_stored: bool) -> None:
        """Count an item that is stored, or give it up; once, however often it is called."""

        async def decide(balance: MediaBalance) -> MediaLimitEvent | None:
            return settle_media(balance, digest, is_stored=is_stored)

        if find_media_reservation(await self.load_balance(tenant), digest):
            await self._change_balance(tenant, decide)

    async def _change_balance(
        self, tenant: str, decide: Callable[[MediaBalance], Awaitable[MediaLimitEvent | None]]
    ) -> None:
        async def decide_events(state: TenantMedia | None) -> Sequence[LibraryEvent]:
            event = await decide((state or TenantMedia()).balance)
            return () if event is None else (event,)

        await self._balances.handle(tenant, MEDIA_LIMIT_FAMILY, decide_events, STORER)
