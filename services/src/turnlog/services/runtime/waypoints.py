from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final

from turnlog.projections.session.replacing import replace
from turnlog.projections.session.state import SessionState
from turnlog.services.runtime.snapshots import CheckedSnapshotStore

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
        await self.snapshots.save_state(remove_command_keys(state), state.head.sequence // INTERVAL_LENGTH)

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
