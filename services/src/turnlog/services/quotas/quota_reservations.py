"""The quota of turns: reserve before a turn is submitted, and settle when it is over.

A turn that waits for a person or for its children holds only what it has used; it reserves again
before it goes on.

A turn names its reservation, and a reservation names its turn. So the process that settles a turn
settles the reservation. If it died first, the next process that reads the balance finds the state
of the turn in the session's log. Nothing else is needed: a reservation that is left over affects
only the user's next turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from turnlog.events.codec import format_rfc3339
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Unavailable
from turnlog.events.model.quota_events import QuotaLimits, QuotaReservation
from turnlog.events.model.turn_events import (
    TurnQueued,
    TurnReservation,
    TurnSubmitted,
    find_turn_end,
)
from turnlog.events.store.ports import EventLog
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.quotas.quota_decisions import (
    QuotaExceeded,
    UserBalance,
    find_used_up_tokens,
    format_period,
)
from turnlog.projections.quotas.quota_limits import UNLIMITED
from turnlog.projections.quotas.turn_bound import TurnBound
from turnlog.projections.quotas.turn_usage import TurnUse, collect_turn_use
from turnlog.projections.session.child_commands import SubmitChildTurn
from turnlog.projections.session.commands import Command, DecideApproval, SubmitTurn
from turnlog.projections.session.open_turn import OpenTurn, TurnSubmission
from turnlog.projections.session.rules.attempt_events import NewEvents
from turnlog.projections.session.rules.quota_waits import (
    ends_wait,
    fail_over_quota,
    is_asked_of_person,
    is_waiting,
)
from turnlog.projections.session.state import SessionState
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.platform.clock import Clock
from turnlog.services.quotas.quota_service import QuotaService

SUBMIT_GRACE: Final = timedelta(seconds=60)
"""How long a reservation without a turn counts: its gateway may be about to submit the turn."""

REPORT_GRACE: Final = timedelta(seconds=60)
"""How long a settled turn waits for what a worker that was interrupted used."""

_SETTLER: Final = CommandMetadata("quotas")

_log = structlog.get_logger("turnlog.quotas")


@dataclass(frozen=True, slots=True)
class TurnQuotas:
    """Reserves, settles and releases the quotas of turns."""

    service: QuotaService
    log: EventLog
    """The log of sessions."""

    @property
    def clock(self) -> Clock:
        """The clock by which hours, days and months begin."""
        return self.service.parts.clock

    def start_command(self, tenant: str, session: str, metadata: CommandMetadata) -> CommandQuota:
        """Return what a command reserves and settles, however often it is decided."""
        return CommandQuota(quotas=self, tenant=tenant, session=session, metadata=metadata)

    async def reconcile_balance(self, tenant: str, user: str, period: str) -> UserBalance:
        """Settle or release what is over, and return the balance after it."""
        balance = await self.service.load_balance(tenant, user, period)
        for each in balance.balance.reservations:
            await self._reconcile_turn(tenant, user, period, each)
        return await self.service.load_balance(tenant, user, period)

    async def settle_reservation(self, tenant: str, user: str, reserved: TurnReservation) -> None:
        """Settle one reservation; after a failure the next reader of the balance settles it."""
        try:
            balance = await self.service.load_balance(tenant, user, reserved.period)
            found = balance.find_reservation(reserved.id)
            if found is not None:
                await self._reconcile_turn(tenant, user, reserved.period, found)
        except Unavailable as error:
            _log.warning("quota-not-settled", detail=str(error))

    async def pause_reservation(self, tenant: str, user: str, reserved: TurnReservation) -> None:
        """Give back what a waiting turn does not use; after a failure the next reader does it."""
        try:
            balance = await self.service.load_balance(tenant, user, reserved.period)
            found = balance.find_reservation(reserved.id)
            if found is None or found.paused is not None:
                return
            use = await self._load_turn_use(tenant, found)
            if use.is_waiting:
                await self._pause_turn(
                    tenant=tenant, user=user, period=reserved.period, reserved=found, use=use
                )
        except Unavailable as error:
            _log.warning("quota-not-paused", detail=str(error))

    async def _pause_turn(
        self, tenant: str, user: str, period: str, reserved: QuotaReservation, use: TurnUse
    ) -> None:
        place = (tenant, user, period, reserved.id)
        await self.service.pause_turn(*place, use.used, _SETTLER)
        # The turn may have gone on meanwhile, and found nothing to reserve again.
        if not (await self._load_turn_use(tenant, reserved)).is_waiting:
            await self.service.resume_turn(*place, _SETTLER)

    async def resume_reservation(self, tenant: str, user: str, reserved: TurnReservation) -> None:
        """Reserve again for a turn that goes on, whatever is left."""
        place = (tenant, user, reserved.period, reserved.id)
        await self.service.resume_turn(*place, _SETTLER)

    async def find_used_up_tokens(
        self, tenant: str, user: str, reserved: TurnReservation
    ) -> QuotaExceeded | None:
        """Return why a turn that waited may not go on, or None."""
        limits = await self.service.find_limits(tenant, user)
        balance = await self.service.load_balance(tenant, user, reserved.period)
        return find_used_up_tokens(limits, balance.balance, self.clock())

    async def _reconcile_turn(
        self, tenant: str, user: str, period: str, reserved: QuotaReservation
    ) -> None:
        use, now = await self._load_turn_use(tenant, reserved), self.clock()
        if not use.is_submitted:
            if now - datetime.fromisoformat(reserved.at) >= SUBMIT_GRACE:
                await self.service.release_turn(
                    tenant=tenant,
                    user=user,
                    period=period,
                    reservation=reserved.id,
                    metadata=_SETTLER,
                )
            return
        if use.is_waiting and reserved.paused is None:
            await self._pause_turn(
                tenant=tenant, user=user, period=period, reserved=reserved, use=use
            )
        is_reported = use.lost_at is None or now - use.lost_at >= REPORT_GRACE
        if use.is_settled and is_reported:
            await self.service.settle_turn(
                tenant=tenant,
                user=user,
                period=period,
                reservation=reserved.id,
                used=use.used,
                metadata=_SETTLER,
            )

    async def _load_turn_use(self, tenant: str, reserved: QuotaReservation) -> TurnUse:
        session, events = reserved.session, tuple[RecordedEvent, ...]()
        last = await self.log.read_last_event(tenant, session, leader=True)
        if last is not None and last.sequence > reserved.after:
            before = await self.log.find_event(tenant, session, reserved.after, last)
            events = (*await self.log.read_range(tenant, session, before.head, last),)
        return collect_turn_use(events, reserved.turn, reserved.id)


@dataclass(slots=True, kw_only=True)
class CommandQuota:
    """What one command reserves and settles."""

    quotas: TurnQuotas
    tenant: str
    session: str
    metadata: CommandMetadata
    before: SessionState | None = None
    """The state that the command was decided on last."""
    user: str = ""
    reserved: TurnReservation | None = None
    """What it has reserved."""
    resumed: TurnSubmission | None = None
    """The turn that goes on with the command."""

    async def reserve_events(
        self, state: SessionState | None, command: Command | None, events: NewEvents
    ) -> NewEvents:
        """Return the events with the reservation of the turn that they submit or let go on.

        Raises `QuotaExceeded` for a new turn. A turn that waited fails instead if nothing is left.
        """
        self.before = state
        if state is not None and state.open is not None and ends_wait(state.open, events):
            return await self._resume_turn(state, state.open, command, events)
        return await self._reserve_submitted(state, command, events)

    async def _resume_turn(
        self, state: SessionState, opened: OpenTurn, command: Command | None, events: NewEvents
    ) -> NewEvents:
        submission = opened.submission
        if submission.reservation is None or submission.user is None or _ends_turn(events):
            return events
        place = (self.tenant, submission.user, submission.reservation)
        if is_asked_of_person(opened):
            refusal = await self.quotas.find_used_up_tokens(*place)
            if refusal is not None:
                decided = command if isinstance(command, DecideApproval) else None
                policy = decided.failed_policy if decided else Policies().failed
                return fail_over_quota(state, events, refusal.detail, policy)
        self.resumed = submission
        await self.quotas.resume_reservation(*place)
        return events

    async def _reserve_submitted(
        self, state: SessionState | None, command: Command | None, events: NewEvents
    ) -> NewEvents:
        if not isinstance(command, SubmitTurn | SubmitChildTurn) or state is None:
            return events
        turns = (each for each in events if isinstance(each, TurnSubmitted | TurnQueued))
        submitted = next(turns, None)
        if submitted is None or command.user is None or command.bound is None:
            return events
        limits = await self.quotas.service.find_limits(self.tenant, command.user)
        if limits == UNLIMITED:
            return events
        reserved = await self._reserve(state, command, limits, submitted.turn)
        named = submitted.model_copy(update={"reservation": reserved})
        return tuple(named if each is submitted else each for each in events)

    async def _reserve(
        self,
        state: SessionState,
        command: SubmitTurn | SubmitChildTurn,
        limits: QuotaLimits,
        turn: int,
    ) -> TurnReservation:
        """Reserve the bound of a turn.

        One that the resolver can answer reserves no tokens if none are left.
        """
        quotas, user = self.quotas, command.user or ""
        at = quotas.clock()
        # Decided once more, the command keeps its reservation, for the number the turn has then.
        reserved = self.reserved or TurnReservation(
            id=quotas.service.parts.create_id(), period=format_period(at)
        )
        bound = command.bound or TurnBound()
        wanted = QuotaReservation(
            id=reserved.id,
            session=self.session,
            turn=turn,
            after=state.head.sequence,
            at=format_rfc3339(at),
            input_tokens=bound.input_tokens,
            output_tokens=bound.output_tokens,
            child=isinstance(command, SubmitChildTurn),
        )
        place = (self.tenant, user, reserved.period)
        refusal = None
        if reserved.used_up is None:
            refusal = await self._find_refusal(place, limits, wanted)
        if refusal is not None:
            if not (_has_fallback(command) and refusal.use.is_used_up and refusal.use.is_of_tokens):
                raise refusal
            reserved = reserved.model_copy(update={"used_up": refusal.detail})
        if reserved.used_up is not None:
            unasked = wanted.model_copy(update={"input_tokens": 0, "output_tokens": 0})
            await quotas.service.reserve_turn(
                *place, limits.drop_token_limits(), unasked, self.metadata
            )
        self.user, self.reserved = user, reserved
        return reserved

    async def _find_refusal(
        self, place: tuple[str, str, str], limits: QuotaLimits, wanted: QuotaReservation
    ) -> QuotaExceeded | None:
        """Reserve a turn, and return why that is refused, or None."""
        service = self.quotas.service
        try:
            await service.reserve_turn(*place, limits, wanted, self.metadata)
        except QuotaExceeded:
            # Turns that are over may still be reserved for, because their process died.
            await self.quotas.reconcile_balance(*place)
        else:
            return None
        try:
            await service.reserve_turn(*place, limits, wanted, self.metadata)
        except QuotaExceeded as refusal:
            return refusal
        return None

    async def release_turn(self) -> None:
        """Take back what was reserved for a turn that certainly is not submitted or still waits."""
        if self.resumed is not None:
            await self._pause_turn(self.resumed)
        if self.reserved is None:
            return
        try:
            place = (self.tenant, self.user, self.reserved.period)
            await self.quotas.service.release_turn(*place, self.reserved.id, self.metadata)
        except Unavailable as error:
            _log.warning("quota-not-released", detail=str(error))

    async def settle_turns(
        self, events: Sequence[RecordedEvent], state: SessionState | None
    ) -> None:
        """Settle the turns that these events ended; release what none of them uses.

        `state` is that after them. A turn that waits from now on gives back what it does not use.
        """
        if state is not None and state.open is not None and events:
            await self._follow_open_turn(state.open)
        if not any(_get_reservation(each) == self.reserved for each in events):
            await self.release_turn()
        if self.before is None:
            return
        unsettled = {each.turn: each for each in self.before.unsettled_turns}
        for recorded in events:
            end = find_turn_end(recorded.event)
            ended = unsettled.pop(end.turn, None) if end else None
            if ended is not None:
                await self._settle_turn(ended)

    async def _follow_open_turn(self, opened: OpenTurn) -> None:
        submission = opened.submission
        if is_waiting(opened):
            await self._pause_turn(submission)
        elif self.resumed and submission.user and submission.reservation:
            # Whoever paused it for the wait may have done so since.
            place = (self.tenant, submission.user, submission.reservation)
            try:
                await self.quotas.resume_reservation(*place)
            except Unavailable as error:
                _log.warning("quota-not-resumed", detail=str(error))

    async def _pause_turn(self, waiting: TurnSubmission) -> None:
        if waiting.reservation is not None and waiting.user is not None:
            await self.quotas.pause_reservation(self.tenant, waiting.user, waiting.reservation)

    async def _settle_turn(self, ended: TurnSubmission) -> None:
        if ended.reservation is not None and ended.user is not None:
            await self.quotas.settle_reservation(self.tenant, ended.user, ended.reservation)


def _has_fallback(command: SubmitTurn | SubmitChildTurn) -> bool:
    return isinstance(command, SubmitTurn) and command.has_fallback


def _ends_turn(events: NewEvents) -> bool:
    return any(find_turn_end(each) for each in events)


def _get_reservation(recorded: RecordedEvent) -> TurnReservation | None:
    event = recorded.event
    return event.reservation if isinstance(event, TurnSubmitted | TurnQueued) else None
