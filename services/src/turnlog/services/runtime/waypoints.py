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
from typing import Final

from turnlog.projections.session.replacing import replace
from turnlog.projections.session.state import SessionState
from turnlog.services.runtime.snapshots import CheckedSnapshots

EVERY: Final = 256
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

    async def around(
        self, tenant: str, session: str, at: int
    ) -> tuple[SessionState | None, SessionState | None]:
        """Give the nearest state at or before a sequence, and one close behind it, if kept."""
        number = at // EVERY
        near = await self._loaded(tenant, session, range(number + 1, max(0, number - 2), -1))
        behind = [state for state in near if state.head.sequence > at]
        before = [state for state in near if state.head.sequence <= at]
        for some in _further(number - 2):
            if before:
                break
            before = await self._loaded(tenant, session, some)
        return (before[0] if before else None), (behind[-1] if behind else None)

    async def _loaded(self, tenant: str, session: str, numbers: range) -> list[SessionState]:
        """Give those there are, in the order asked for."""
        loads = (self.snapshots.load(tenant, session, number) for number in numbers if number > 0)
        return [state for state in await asyncio.gather(*loads) if state]


def _further(number: int) -> Iterator[range]:
    """Give the numbers from one down to the first, some at a time."""
    for start in range(number, 0, -AT_ONCE):
        yield range(start, max(0, start - AT_ONCE), -1)
