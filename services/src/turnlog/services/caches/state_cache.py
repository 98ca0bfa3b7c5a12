"""The latest session states that a process knows: folded, cached and saved as snapshots.

A cached state may be behind the log but never contradicts it: it is replaced only by a later state
of the same session. The least recently used session is evicted first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Unavailable
from turnlog.projections.session.decide import refuse_unknown_session
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import IdempotencyRecord, SessionState
from turnlog.services.caches.session_snapshots import (
    SNAPSHOT_INTERVAL,
    CheckedSnapshotStore,
    IntervalSnapshots,
    has_crossed_interval,
)
from turnlog.services.caches.text_cache import TextReader

MAX_CACHED_STATES: Final = 2_000
"""Maximum number of cached states."""


class OlderCommandLookup(Protocol):
    """Finds idempotency keys that the session state no longer contains."""

    async def find_command(self, state: SessionState, key: str) -> IdempotencyRecord | None:
        """Return the record of a key; raise `Unavailable` when this is not known yet."""
        ...


@dataclass
class _CachedState:
    state: SessionState
    snapshot_sequence: int
    """Sequence of the latest snapshot."""


@dataclass(kw_only=True)
class StateCache:
    """Folds the states of sessions, and keeps the latest ones."""

    snapshots: CheckedSnapshotStore
    texts: TextReader
    older_commands: OlderCommandLookup
    _entries: OrderedDict[tuple[str, str], _CachedState] = field(
        default_factory=OrderedDict[tuple[str, str], _CachedState]
    )
    _save_tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def get_state(self, tenant: str, session: str) -> SessionState | None:
        """Return the cached state of a session, or None."""
        entry = self._entries.get((tenant, session))
        return entry.state if entry else None

    def get_presumed_state(self, tenant: str, session: str) -> SessionState | None:
        """Return the cached state, or None while a worker is about to claim the open turn."""
        state = self.get_state(tenant, session)
        return state if state and (state.open is None or state.open.is_running) else None

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

    def fold_events(
        self, events: Sequence[RecordedEvent], state: SessionState | None
    ) -> SessionState:
        """Fold events onto a state, and cache the result and the texts."""
        self.texts.cache_events(events)
        folded = fold(events, state)
        if folded is None:
            raise refuse_unknown_session("the session was never opened")
        self._put_state(folded)
        return folded

    def fold_appended_events(
        self, events: Sequence[RecordedEvent], state: SessionState | None
    ) -> SessionState:
        """Do the same, and save the interval snapshot that this process's append made due."""
        folded = self.fold_events(events, state)
        if has_crossed_interval(state, folded):
            self._start_save(IntervalSnapshots(self.snapshots).save_state(folded))
        return folded

    async def find_command(self, state: SessionState, key: str) -> IdempotencyRecord | None:
        """Return the record of an idempotency key, however old, or None."""
        record = next((record for record in state.commands if record.key == key), None)
        if record is None and state.forgotten_commands:
            record = await self.older_commands.find_command(state, key)
        return record

    def forget_session(self, tenant: str, session: str) -> None:
        """Drop the state of a session of which something was erased, and all texts."""
        self._entries.pop((tenant, session), None)
        self.texts.forget_texts()

    def _put_state(self, state: SessionState) -> None:
        # A state is replaced by a later one of its session only.
        before = self._entries.get((state.tenant, state.session))
        if before is None:
            self._put_entry(_CachedState(state, snapshot_sequence=0))
        elif before.state.head.sequence < state.head.sequence:
            self._put_entry(_CachedState(state, before.snapshot_sequence))

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
