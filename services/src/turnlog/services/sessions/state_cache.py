"""The latest session states that a process knows, and when it saves snapshots of them.

A cached state may be behind the log but never contradicts it: it is replaced only by a later state
of the same session. The least recently used session is evicted first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.errors import Unavailable
from turnlog.projections.session.state import SessionState
from turnlog.services.sessions.session_snapshots import (
    SNAPSHOT_INTERVAL,
    CheckedSnapshotStore,
    IntervalSnapshots,
    has_crossed_interval,
)

MAX_CACHED_STATES: Final = 2_000
"""Maximum number of cached states."""


@dataclass
class _CachedState:
    state: SessionState
    snapshot_sequence: int
    """Sequence of the latest snapshot."""


@dataclass
class StateCache:
    """The cached states of a process."""

    snapshots: CheckedSnapshotStore
    _entries: OrderedDict[tuple[str, str], _CachedState] = field(
        default_factory=OrderedDict[tuple[str, str], _CachedState]
    )
    _save_tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def get_state(self, tenant: str, session: str) -> SessionState | None:
        """Return the cached state of a session, or None."""
        entry = self._entries.get((tenant, session))
        return entry.state if entry else None

    @property
    def states(self) -> tuple[SessionState, ...]:
        """All cached states."""
        return tuple(entry.state for entry in self._entries.values())

    @property
    def latest_state(self) -> SessionState | None:
        """The cached state whose last event has the highest stream position."""
        return max(self.states, key=lambda state: state.head.stream_sequence, default=None)

    async def load_base_state(self, tenant: str, session: str) -> SessionState | None:
        """Return the state to fold from: the cached one, or else the latest snapshot."""
        if state := self.get_state(tenant, session):
            return state
        state = await self.snapshots.load_state(tenant, session)
        if state is not None:
            self._put_entry(_CachedState(state, snapshot_sequence=state.head.sequence))
        return state

    def put_state(self, state: SessionState) -> None:
        """Cache a state, unless a later one of its session is cached already."""
        before = self._entries.get((state.tenant, state.session))
        if before is None:
            self._put_entry(_CachedState(state, snapshot_sequence=0))
        elif before.state.head.sequence < state.head.sequence:
            self._put_entry(_CachedState(state, before.snapshot_sequence))

    def save_interval_snapshot(self, before: SessionState | None, after: SessionState) -> None:
        """Save an interval snapshot if this process's append crossed an interval."""
        if has_crossed_interval(before, after):
            self._start_save(IntervalSnapshots(self.snapshots).save_state(after))

    def _put_entry(self, entry: _CachedState) -> None:
        state = entry.state
        self._entries[state.tenant, state.session] = entry
        self._entries.move_to_end((state.tenant, state.session))
        if len(self._entries) > MAX_CACHED_STATES:
            self._entries.popitem(last=False)
        if state.head.sequence - entry.snapshot_sequence >= SNAPSHOT_INTERVAL:
            entry.snapshot_sequence = state.head.sequence
            self._start_save(self.snapshots.save_state(state))

    def _start_save(self, saving: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(_save_if_available(saving))
        self._save_tasks.add(task)
        task.add_done_callback(self._save_tasks.discard)


async def _save_if_available(saving: Coroutine[None, None, None]) -> None:
    try:
        await saving
    except Unavailable:
        return  # A snapshot only saves time, and a later one will do as well.
