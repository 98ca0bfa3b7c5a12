"""Turns that a state keeps only as runs, for a window that reaches them after all.

A state keeps one by one as many turns as fill the widest window. When some of them are excluded, a
window has room for older turns. It never includes more than the latest `MAX_RECENT_TURNS`, so those
are folded from the interval snapshot before the first of them, however long the session is. The
result is cached, and the next call folds only what was appended since. An auditor folds the whole
session instead.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.projections.session.evolve import fold_with_reach
from turnlog.projections.session.state import FARTHEST_REACH, MAX_RECENT_TURNS, SessionState
from turnlog.services.caches.session_snapshots import (
    INTERVAL_LENGTH,
    CheckedSnapshotStore,
    IntervalSnapshots,
)
from turnlog.services.caches.text_cache import TextReader

MAX_CACHED_STATES: Final = 8
"""Sessions whose farther states are cached; each takes up to half a megabyte."""

ReadEvents = Callable[[str, str, ChainHead | None, int], Awaitable[Sequence[RecordedEvent]]]
"""Return the events of a tenant's session after a head, up to a sequence."""


@dataclass(frozen=True, slots=True)
class OlderTurnsLoader:
    """Loads states that keep the latest `MAX_RECENT_TURNS` turns, whatever their length."""

    snapshots: CheckedSnapshotStore
    texts: TextReader
    read_events: ReadEvents
    _cache: OrderedDict[tuple[str, str], SessionState] = field(
        default_factory=OrderedDict[tuple[str, str], SessionState]
    )

    async def load_state(self, state: SessionState, upto: int) -> SessionState:
        """Return the farther state of a session at a sequence; `state` is its state there."""
        key = state.tenant, state.session
        base = self._cache.get(key)
        distance = _estimate_distance(state, upto)
        if base is None or not upto - distance <= base.head.sequence <= upto:
            base = await self._find_base(state, upto, distance)
        events: Sequence[RecordedEvent] = ()
        if base is None or base.head.sequence < upto:
            events = await self.read_events(*key, base.head if base else None, upto)
            self.texts.cache_events(events)
        folded = fold_with_reach(events, FARTHEST_REACH, base)
        if folded is None:
            raise Corrupt("event 1", "it does not open a session")
        self._cache[key] = folded
        self._cache.move_to_end(key)
        if len(self._cache) > MAX_CACHED_STATES:
            self._cache.popitem(last=False)
        return folded

    async def _find_base(
        self, state: SessionState, upto: int, distance: int
    ) -> SessionState | None:
        """Return an interval snapshot that keeps every wanted turn; None for the first event."""
        first = find_first_recent_turn(state)
        place = upto - distance
        while place > 0:
            base = await IntervalSnapshots(self.snapshots).find_state(
                state.tenant, state.session, place
            )
            if base is None or all(run.last < first for run in base.earlier):
                return base
            place = min(place, base.head.sequence) - max(distance // 4, INTERVAL_LENGTH)
        return None


def _estimate_distance(state: SessionState, upto: int) -> int:
    """Return how many events back the first wanted turn is, if all turns had as many events."""
    turns = state.submitted - find_first_recent_turn(state) + 1
    return -(-upto * turns // max(1, state.submitted))


def find_first_recent_turn(state: SessionState) -> int:
    """Return the number of the first of the latest `MAX_RECENT_TURNS` settled turns."""
    missing = MAX_RECENT_TURNS - len(state.turns)
    if missing <= 0:
        return state.turns[-MAX_RECENT_TURNS].turn
    for run in reversed(state.earlier):
        if run.last - run.first + 1 >= missing:
            return run.last - missing + 1
        missing -= run.last - run.first + 1
    return 1
