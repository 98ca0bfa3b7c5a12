"""Snapshots of session states, each checked against the log before it is used.

A snapshot records the log it was folded from, its last event and the version of the fold. One that
does not match is discarded, and the session is folded from an earlier state or from its first
event; a mismatch with the log is also logged as an error.

Interval snapshots are stored at fixed sequences and never overwritten, so that any old sequence has
one near it. The process that appends past an interval saves one, and a reader saves those that it
finds missing. They lack the idempotency keys of commands, so no command may be decided on them.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

import structlog
from pydantic import TypeAdapter, ValidationError

from turnlog.events.envelope import ChainHead
from turnlog.events.errors import Corrupt
from turnlog.events.store.ports import EventLog, LogIdentity, SnapshotStore
from turnlog.projections.session.fast_replace import replace
from turnlog.projections.session.state import FOLD_VERSION, SessionState

# Loading the snapshot of a session of 1,201 events takes below 1 ms of processor time. Folding it
# from its first event, at the 25,100 events/s of `python -m benchmarks reading`, takes 48 ms.
SNAPSHOT_INTERVAL: Final = 64
"""Events between two snapshots of a session's latest state."""

_log = structlog.get_logger("turnlog.snapshots")


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A state, and the log and fold version that it was folded with."""

    stream: str
    created: str
    fold: int
    state: SessionState


_SNAPSHOT_ADAPTER: Final = TypeAdapter(StateSnapshot)


@dataclass(frozen=True, slots=True)
class CheckedSnapshotStore:
    """Saves snapshots, and loads those that the log confirms."""

    log: EventLog
    store: SnapshotStore

    async def save_state(self, state: SessionState, interval_number: int | None = None) -> None:
        """Save a state as its session's latest snapshot, or as one of its interval snapshots."""
        identity = await self.log.get_identity(state.tenant)
        snapshot = StateSnapshot(identity.stream, identity.created, FOLD_VERSION, state)
        packed = zlib.compress(_SNAPSHOT_ADAPTER.dump_json(snapshot))
        await self.store.put_snapshot(state.tenant, state.session, packed, interval_number)

    async def load_state(
        self, tenant: str, session: str, interval_number: int | None = None
    ) -> SessionState | None:
        """Return the state of the latest or of an interval snapshot, if the log confirms it."""
        stored, identity = await asyncio.gather(
            self.store.get_snapshot(tenant, session, interval_number), self.log.get_identity(tenant)
        )
        if stored is None:
            return None
        try:
            snapshot = _SNAPSHOT_ADAPTER.validate_json(zlib.decompress(stored))
        except (zlib.error, ValidationError):
            return None  # Written by a release with another fold.
        if snapshot.fold != FOLD_VERSION:
            return None
        if not await self._is_confirmed_by_log(snapshot, identity):
            _log.error("snapshot-discarded", tenant=tenant, session=session)
            return None
        return snapshot.state

    async def _is_confirmed_by_log(self, snapshot: StateSnapshot, identity: LogIdentity) -> bool:
        if (snapshot.stream, snapshot.created) != (identity.stream, identity.created):
            return False
        return await has_event(self.log, snapshot.state.tenant, snapshot.state.head)


async def has_event(log: EventLog, tenant: str, head: ChainHead) -> bool:
    """Return whether the log has exactly this event at its stream position."""
    try:
        (event,) = await log.read_events_at(tenant, [head.stream_sequence])
    except Corrupt:
        return False
    return event.head == head


# Latest and interval snapshots do different jobs: only the latest has the idempotency keys that
# deciding needs, and only intervals reach the past. `python -m benchmarks travel` has any state of
# a session of 10,000 turns, some 60,000 events, in 25 ms; folding it from the start at the 25,100
# events/s of `python -m benchmarks reading` would take over two seconds.
INTERVAL_LENGTH: Final = 128
"""Events between two interval snapshots: the most that a read in the past has to fold."""

INTERVAL_LOOKUP_BATCH: Final = 32
"""Interval snapshots looked up at a time where a session has few of them."""


def has_crossed_interval(before: SessionState | None, after: SessionState) -> bool:
    """Return whether an interval boundary lies between two states of a session."""
    since = before.head.sequence if before else 0
    return since // INTERVAL_LENGTH < after.head.sequence // INTERVAL_LENGTH


def remove_command_keys(state: SessionState) -> SessionState:
    """Return a state without the idempotency keys, which only deciding needs."""
    return replace(state, commands=(), forgotten_commands=0)


@dataclass(frozen=True, slots=True)
class IntervalSnapshots:
    """Saves and finds interval snapshots."""

    snapshots: CheckedSnapshotStore

    async def save_state(self, state: SessionState) -> None:
        """Save a state as the snapshot of its interval."""
        await self.snapshots.save_state(
            remove_command_keys(state), state.head.sequence // INTERVAL_LENGTH
        )

    async def find_state(self, tenant: str, session: str, at: int) -> SessionState | None:
        """Return the nearest saved state at or before a sequence, or None."""
        for numbers in _iterate_interval_batches(at // INTERVAL_LENGTH):
            loads = (self.snapshots.load_state(tenant, session, number) for number in numbers)
            for state in await asyncio.gather(*loads):
                if state and state.head.sequence <= at:
                    return state
        return None


def _iterate_interval_batches(number: int) -> Iterator[range]:
    """Yield interval numbers downwards: the first two singly, then in batches."""
    for step in chain((1, 1), repeat(INTERVAL_LOOKUP_BATCH)):
        if number <= 0:
            return
        yield range(number, max(0, number - step), -1)
        number -= step
