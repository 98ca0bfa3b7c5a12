"""Fairness between tenants at the worker's queue: whose turn a busy worker runs next.

The queue delivers turns in the order in which they were submitted, so the thousand turns of one
tenant would keep the first turn of another one waiting. A worker whose slots are all taken looks,
before it runs a delivered turn, whether a tenant that has fewer turns running here, or as many and
was served longer ago, has a turn that was not delivered yet. That one is run first, and the
delivered one is held meanwhile.

A turn belongs to whoever claims it on the log, not to whoever has its message. So it may run
before its delivery: when that comes, the turn is settled, or found to be running. Two workers that
choose the same turn are told apart by the claim. Nothing of it is stored; a worker that starts
serves nobody yet, and looks at the log.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from turnlog.events.errors import TurnlogError
from turnlog.events.jetstream.direct_get import StoredMessage, get_next_message
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.model.turn_events import TurnReleased, TurnSubmitted
from turnlog.events.subjects import SESSION_HISTORY

LOOK_SECONDS: Final = 0.25
"""Seconds until the queue is looked at again for a tenant that had no turn in it."""

LIST_SECONDS: Final = 1.0
"""Seconds for which the list of tenants counts."""

MOST_LOOKS: Final = 1_000
"""Most tenants that are looked for at once; those that were looked for longest ago come first."""

_log = structlog.get_logger("turnlog.worker")


class TurnQueue(Protocol):
    """The turns that were submitted, in the order in which they are delivered."""

    async def find_next_turn(self, tenant: str, after: int) -> StoredMessage | None:
        """Return a tenant's first turn after a stream sequence, or None."""
        ...


@dataclass(frozen=True, slots=True)
class JetStreamTurnQueue:
    """The turns in the stream of sessions."""

    connection: NatsConnection

    async def find_next_turn(self, tenant: str, after: int) -> StoredMessage | None:
        """See `TurnQueue.find_next_turn`; a follower that lags may not have it yet."""
        stream = SESSION_HISTORY.find_stream(tenant)
        found = await asyncio.gather(
            *(
                get_next_message(self.connection, stream, subjects, after + 1)
                for subjects in (
                    SESSION_HISTORY.build_leaf_filter(tenant, leaf)
                    for leaf in (TurnSubmitted.leaf, TurnReleased.leaf)
                )
            )
        )
        turns = (each for each in found if each is not None)
        return min(turns, key=lambda each: each.stream_sequence, default=None)


ListTenants = Callable[[], Awaitable[Collection[str]]]
"""Return the tenants that are known to the installation."""


@dataclass(kw_only=True)
class FairTurns:
    """Which turn runs next, for the slots of one worker."""

    slots: int
    queue: TurnQueue
    list_tenants: ListTenants
    is_stopping: Callable[[], bool] = lambda: False
    """Returns whether the worker hands its turns back, and begins no others."""
    monotonic: Callable[[], float] = time.monotonic
    _busy: int = field(init=False, default=0)
    """Slots that have a message."""
    _choosing: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)
    _running: Counter[str] = field(init=False, default_factory=Counter[str])
    _starts: int = field(init=False, default=0)
    _last_start: dict[str, int] = field(init=False, default_factory=dict[str, int])
    """The number of each tenant's last start, of all starts here."""
    _delivered: int = field(init=False, default=0)
    """The last stream sequence that was delivered here for the first time."""
    _taken: dict[str, int] = field(init=False, default_factory=dict[str, int])
    """The stream sequence of the last turn of each tenant that was run before its delivery."""
    _listed: frozenset[str] = field(init=False, default=frozenset())
    _listed_at: float = field(init=False, default=-LIST_SECONDS)
    _failed_at: float = field(init=False, default=-LIST_SECONDS)
    """When the queue could not be read."""
    _looked_at: dict[str, float] = field(init=False, default_factory=dict[str, float])

    @asynccontextmanager
    async def run_fairly(
        self,
        tenant: str,
        stream_sequence: int,
        run_other: Callable[[StoredMessage], Awaitable[None]],
        *,
        is_repeated: bool,
    ) -> AsyncGenerator[None]:
        """Run the turns that come before a delivered one, then the body, which runs that."""
        self._busy += 1
        self._last_start.setdefault(tenant, 0)
        # What is delivered again says nothing of how far the queue has come.
        after = 0 if is_repeated else max(self._delivered, stream_sequence)
        self._delivered = max(self._delivered, after)
        try:
            while after and (chosen := await self._find_earlier(tenant)) is not None:
                other, message = chosen
                with self._count_running(other):
                    await run_other(message)
            with self._count_running(tenant):
                yield
        finally:
            self._busy -= 1

    @contextmanager
    def _count_running(self, tenant: str) -> Generator[None]:
        self._starts += 1
        self._running[tenant] += 1
        self._last_start[tenant] = self._starts
        try:
            yield
        finally:
            self._running[tenant] -= 1

    def _get_rank(self, tenant: str) -> tuple[int, int]:
        """Return how much a tenant has had; the lowest rank comes first."""
        return self._running[tenant], self._last_start.get(tenant, 0)

    async def _find_earlier(self, tenant: str) -> tuple[str, StoredMessage] | None:
        """Return a turn of a tenant that comes before another one's, and whose it is."""
        if self._busy < self.slots or self.is_stopping():
            return None  # Whatever waits is delivered to a slot that is free.
        # One slot after the other: what it chooses counts for the next one.
        async with self._choosing:
            if self.monotonic() - self._failed_at < LIST_SECONDS:
                return None
            try:
                others = await self._list_earlier(tenant)
                found = await asyncio.gather(*map(self._look_for_turn, others))
            except TurnlogError as error:
                # The slots do not wait for it one after the other.
                self._failed_at = self.monotonic()
                _log.warning("queue-unreadable", error=str(error))
                return None
            waiting = zip(others, found, strict=True)
            own = self._get_rank(tenant)
            for other, message in sorted(waiting, key=lambda each: self._get_rank(each[0])):
                # A turn of the tenant itself may have ended meanwhile.
                if message is not None and self._get_rank(other) < own:
                    self._taken[other] = message.stream_sequence
                    return other, message
            return None

    async def _list_earlier(self, tenant: str) -> list[str]:
        own, now = self._get_rank(tenant), self.monotonic()
        if now - self._listed_at >= LIST_SECONDS:
            self._listed, self._listed_at = frozenset(await self.list_tenants()), now
        due = [
            each
            for each in self._listed | self._last_start.keys()
            if each != tenant
            and self._get_rank(each) < own
            and now - self._looked_at.get(each, -LOOK_SECONDS) >= LOOK_SECONDS
        ]
        return sorted(due, key=lambda each: (self._looked_at.get(each, 0.0), each))[:MOST_LOOKS]

    async def _look_for_turn(self, tenant: str) -> StoredMessage | None:
        after = max(self._delivered, self._taken.get(tenant, 0))
        found = await self.queue.find_next_turn(tenant, after)
        if found is None:
            self._looked_at[tenant] = self.monotonic()
        return found
