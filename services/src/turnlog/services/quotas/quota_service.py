"""The quota service: the limits of users, and the balances that their turns reserve from.

Every event of a quota is appended here, by compare-and-set on its own history: the limits of a
tenant, or the balance of a user in a month. Gateways that reserve from one balance at the same time
therefore see each other's reservations.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Never

from turnlog.events import codec
from turnlog.events.model.quota_events import (
    QUOTA_LIMITS_FAMILY,
    QuotaBalance,
    QuotaEdited,
    QuotaEvent,
    QuotaLimits,
    QuotaReservation,
    build_balance_family,
)
from turnlog.events.registry import LibraryEvent
from turnlog.projections.quotas.quota_decisions import (
    UserBalance,
    pause_turn,
    read_balance,
    release_turn,
    reserve_turn,
    resume_turn,
    settle_turn,
)
from turnlog.projections.quotas.quota_limits import (
    UNLIMITED,
    QuotaCommandRecord,
    TenantLimits,
    fold_limits,
)
from turnlog.projections.quotas.turn_bound import TurnBound
from turnlog.services.command_handling.idempotent_commands import (
    CommandMetadata,
    IdempotentCommandHandler,
)
from turnlog.services.command_handling.tenant_histories import (
    LibraryParts,
    TenantHistory,
    TenantStates,
    create_last_event_handler,
)


@dataclass
class QuotaService:
    """The quotas of all tenants, for one process."""

    parts: LibraryParts
    monotonic: Callable[[], float] = time.monotonic
    _limits: TenantHistory[TenantLimits, QuotaCommandRecord] = field(init=False)
    _balances: IdempotentCommandHandler[UserBalance, Never] = field(init=False)

    def __post_init__(self) -> None:
        states = TenantStates[TenantLimits, QuotaCommandRecord](TenantLimits, fold_limits)
        self._limits = TenantHistory(
            parts=self.parts,
            family=QUOTA_LIMITS_FAMILY,
            create=TenantLimits,
            states=states,
            log_name="quotas",
            monotonic=self.monotonic,
        )
        self._balances = create_last_event_handler(self.parts, read_balance, "quotas")

    async def load_limits(self, tenant: str) -> TenantLimits:
        """Return the limits of a tenant's users as they are now."""
        return await self._limits.load_state(tenant)

    async def find_limits(self, tenant: str, user: str) -> QuotaLimits:
        """Return the limits of a user, without a read where it was seen to have none just now."""
        recent = self._limits.get_recent_state(tenant)
        if recent is not None and recent.get_limits(user) == UNLIMITED:
            return UNLIMITED
        return (await self.load_limits(tenant)).get_limits(user)

    async def edit_limits(
        self,
        tenant: str,
        edited: QuotaEdited,
        metadata: CommandMetadata,
        key: codec.CommandRef | None = None,
    ) -> TenantLimits:
        """Set all limits of a user; see `TenantHistory.handle`."""

        def decide(state: TenantLimits) -> Sequence[LibraryEvent]:
            return () if state.get_limits(edited.user) == edited.limits else (edited,)

        return (await self._limits.handle(tenant, decide, metadata, key)).state

    async def load_balance(self, tenant: str, user: str, period: str) -> UserBalance:
        """Return what a user used and reserved in a month."""
        state = await self._balances.load_state(tenant, build_balance_family(user, period))
        return state or UserBalance()

    async def reserve_turn(
        self,
        tenant: str,
        user: str,
        period: str,
        limits: QuotaLimits,
        wanted: QuotaReservation,
        metadata: CommandMetadata,
    ) -> None:
        """Reserve what a turn may use at most; raises `QuotaExceeded` if nothing is left."""

        def decide(balance: QuotaBalance) -> QuotaEvent | None:
            return reserve_turn(
                limits=limits, balance=balance, user=user, wanted=wanted, at=self.parts.clock()
            )

        await self._change_balance(
            tenant=tenant, user=user, period=period, decide=decide, metadata=metadata
        )

    async def settle_turn(
        self,
        tenant: str,
        user: str,
        period: str,
        reservation: str,
        used: TurnBound,
        metadata: CommandMetadata,
    ) -> None:
        """Replace a reservation by what the turn used; once, however often it is called."""

        def decide(balance: QuotaBalance) -> QuotaEvent | None:
            return settle_turn(balance, user, reservation, used)

        await self._change_balance(
            tenant=tenant, user=user, period=period, decide=decide, metadata=metadata
        )

    async def pause_turn(
        self,
        tenant: str,
        user: str,
        period: str,
        reservation: str,
        used: TurnBound,
        metadata: CommandMetadata,
    ) -> None:
        """Leave a waiting turn only what it has used."""

        def decide(balance: QuotaBalance) -> QuotaEvent | None:
            return pause_turn(balance, user, reservation, used)

        await self._change_balance(
            tenant=tenant, user=user, period=period, decide=decide, metadata=metadata
        )

    async def resume_turn(
        self, tenant: str, user: str, period: str, reservation: str, metadata: CommandMetadata
    ) -> None:
        """Reserve again for a turn that goes on."""

        def decide(balance: QuotaBalance) -> QuotaEvent | None:
            return resume_turn(balance, user, reservation)

        await self._change_balance(
            tenant=tenant, user=user, period=period, decide=decide, metadata=metadata
        )

    async def release_turn(
        self, tenant: str, user: str, period: str, reservation: str, metadata: CommandMetadata
    ) -> None:
        """Take a reservation back whose turn was not submitted."""

        def decide(balance: QuotaBalance) -> QuotaEvent | None:
            return release_turn(balance, user, reservation)

        await self._change_balance(
            tenant=tenant, user=user, period=period, decide=decide, metadata=metadata
        )

    async def _change_balance(
        self,
        tenant: str,
        user: str,
        period: str,
        decide: Callable[[QuotaBalance], QuotaEvent | None],
        metadata: CommandMetadata,
    ) -> None:
        async def decide_events(state: UserBalance | None) -> Sequence[LibraryEvent]:
            event = decide((state or UserBalance()).balance)
            return () if event is None else (event,)

        family = build_balance_family(user, period)
        await self._balances.handle(tenant, family, decide_events, metadata)
