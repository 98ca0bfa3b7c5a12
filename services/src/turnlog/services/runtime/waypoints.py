"""Waypoints: states of a session kept at intervals, so that any old sequence has one near it.

They are snapshots that nothing overwrites: each names its log, its event and the version of the
fold, and is checked before it is used. Whoever appends past a place for one keeps it, and whoever
reads over such a place that has none keeps it then. They are for reading only: the keys of commands
are left out, so nobody may act on one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

from turnlog.projections.session.replacing import replace
from turnlog.projections.session.state import SessionState
from turnlog.services.runtime.snapshots import CheckedSnapshots

EVERY: Final = 128
"""Events from one to the next: what is folded at the most to come to any sequence."""
AT_ONCE: Final = 32
"""How many are looked up at a time where a session has few."""


def passed(before: SessionState | None, after: SessionState) -> bool:
    """Tell whether a place for a waypoint lies between two states of a session."""
    since = before.head.sequence if before else 0
    return since // EVERY < after.head.sequence // EVERY


def for_reading(state: SessionState) -> SessionState:
    """Leave out what only deciding needs."""
    return replace(state, commands=(), forgotten_commands=0)


@dataclass(frozen=True, slots=True)
class Waypoints:
    """Keeps and finds them."""

    snapshots: CheckedSnapshots

    async def keep(self, state: SessionState) -> None:
        """Keep a state as the waypoint of its stretch."""
        await self.snapshots.keep(for_reading(state), state.head.sequence // EVERY)

    async def before(self, tenant: str, session: str, at: int) -> SessionState | None:
        """Give the nearest state at or before a sequence; none where none is kept."""
        for numbers in _downwards(at // EVERY):
            loads = (self.snapshots.load(tenant, session, number) for number in numbers)
            for state in await asyncio.gather(*loads):
                if state and state.head.sequence <= at:
                    return state
        return None


def _downwards(number: int) -> Iterator[range]:
    """Give numbers from one down to the first: itself, its neighbour, then some at a time."""
    for step in chain((1, 1), repeat(AT_ONCE)):
        if number <= 0:
            return
        yield range(number, max(0, number - step), -1)
        number -= step
