"""How many turns of a tenant may be open, as a gateway asks before it takes another one.

The read models count them, and a gateway adds the turns that it took since and that they have not
folded yet. A turn that waits for a person takes no worker and may wait for days, so it is counted
apart. While the read models cannot be read, nobody is refused: turns need no database.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused, Unavailable
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.projections.access.tenant_settings import TenantSettings
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.open_turn_queries import OpenTurnCounts, count_open_turns

COUNT_SECONDS: Final = 2.0
"""Seconds to wait for the read models."""

UNFOLDED_SECONDS: Final = 60.0
"""Seconds for which a turn counts that the read models have not folded, since they may stand."""

_log = structlog.get_logger("turnlog.gateway")


class TurnCounter(Protocol):
    """Counts the open turns of a tenant."""

    async def count_turns(self, tenant: str) -> OpenTurnCounts | None:
        """Return them; None while nobody can tell."""
        ...


@dataclass(frozen=True, slots=True)
class RowTurnCounter:
    """Counts in the read models."""

    store: ReadModelStore

    async def count_turns(self, tenant: str) -> OpenTurnCounts | None:
        """See `TurnCounter.count_turns`."""
        try:
            async with asyncio.timeout(COUNT_SECONDS), self.store.open_reader() as connection:
                return await count_open_turns(connection, tenant)
        except (Unavailable, TimeoutError) as error:
            _log.warning("open-turns-uncounted", tenant=tenant, error=type(error).__name__)
            return None


class UncountedTurns:
    """Knows of no turns, so that nobody is refused."""

    async def count_turns(self, tenant: str) -> OpenTurnCounts | None:
        """See `TurnCounter.count_turns`."""
        del tenant
        return None


@dataclass(frozen=True, slots=True)
class _TakenTurn:
    stream_sequence: int
    at: float


@dataclass
class OpenTurnLimits:
    """The limits of one gateway."""

    counter: TurnCounter = field(default_factory=UncountedTurns)
    monotonic: Callable[[], float] = time.monotonic
    _taken: dict[str, deque[_TakenTurn]] = field(
        init=False, default_factory=dict[str, deque[_TakenTurn]]
    )
    """Turns of each limited tenant that the read models may not have folded yet."""
    _counting: Counter[str] = field(init=False, default_factory=Counter[str])
    """How many counts of each tenant are under way."""
    _pending: dict[str, list[TurnAdmission]] = field(
        init=False, default_factory=dict[str, "list[TurnAdmission]"]
    )
    """Turns of each limited tenant that are about to be appended, in order."""

    @contextmanager
    def open_admission(self, tenant: str) -> Generator[TurnAdmission]:
        """Admit one turn of a tenant while it is appended."""
        admission = TurnAdmission(self, tenant)
        try:
            yield admission
        finally:
            self.end_turn(admission)

    def begin_turn(self, admission: TurnAdmission) -> None:
        """Count a turn among those that are about to be appended."""
        pending = self._pending.setdefault(admission.tenant, [])
        if admission not in pending:
            pending.append(admission)

    def end_turn(self, admission: TurnAdmission) -> bool:
        """Count a turn there no more; return whether it was."""
        pending = self._pending.get(admission.tenant, [])
        if admission not in pending:
            return False
        pending.remove(admission)
        if not pending:
            del self._pending[admission.tenant]
        return True

    def count_earlier(self, admission: TurnAdmission) -> int:
        """Return how many turns are about to be appended before this one."""
        return self._pending[admission.tenant].index(admission)

    async def count_active(self, tenant: str) -> OpenTurnCounts | None:
        """Return the open turns, with those that this gateway took since they were counted."""
        self._counting[tenant] += 1
        try:
            counted = await self.counter.count_turns(tenant)
        finally:
            self._counting -= Counter((tenant,))
        taken = self._taken.get(tenant)
        if counted is None or taken is None:
            return counted
        self._forget_turns(tenant, taken, counted.position)
        unfolded = sum(each.stream_sequence > counted.position for each in taken)
        return OpenTurnCounts(counted.active + unfolded, counted.waiting, counted.position)

    def _forget_turns(self, tenant: str, taken: deque[_TakenTurn], position: int) -> None:
        """Forget turns that the read models have folded, and those that are too old to count.

        A count that began earlier may end later, and does not have what was folded meanwhile.
        """
        is_last = tenant not in self._counting
        since = self.monotonic() - UNFOLDED_SECONDS
        while taken and (taken[0].at < since or (is_last and taken[0].stream_sequence <= position)):
            taken.popleft()
        if not taken:
            del self._taken[tenant]

    def note_turn(self, tenant: str, stream_sequence: int) -> None:
        """Note a turn that was appended."""
        taken = self._taken.setdefault(tenant, deque[_TakenTurn]())
        taken.append(_TakenTurn(stream_sequence, self.monotonic()))


@dataclass(eq=False)
class TurnAdmission:
    """Whether a turn may be appended; asked again where the append is decided again."""

    limits: OpenTurnLimits
    tenant: str

    async def require_room(self, settings: TenantSettings) -> None:
        """Raise `Refused` `too-many-open-turns` if the tenant has as many as it may."""
        if settings.max_open_turns is None and settings.max_waiting_turns is None:
            return
        self.limits.begin_turn(self)
        counted = await self.limits.count_active(self.tenant)
        if counted is None:
            return
        most, most_waiting = settings.max_open_turns, settings.max_waiting_turns
        if most is not None and counted.active + self.limits.count_earlier(self) >= most:
            detail = f"the tenant has {most:,} turns open or queued, and no more may be"
            raise _create_refusal(detail, "wait until some of them are over")
        if most_waiting is not None and counted.waiting >= most_waiting:
            detail = f"{counted.waiting:,} turns of the tenant wait for a person, and no more may"
            raise _create_refusal(detail, "have some of their approvals decided")

    def note_turn(self, events: Sequence[RecordedEvent]) -> None:
        """Note the turn that was appended, if it was not repeated."""
        if not self.limits.end_turn(self):
            return  # Its tenant has no limit.
        for each in events:
            if isinstance(each.event, TurnSubmitted | TurnQueued):
                self.limits.note_turn(self.tenant, each.stream_sequence)


def _create_refusal(detail: str, fix: str) -> Refused:
    return Refused("too-many-open-turns", detail, field="tenant", fix=fix)
