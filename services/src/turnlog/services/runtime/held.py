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
from turnlog.services.runtime.snapshots import EVERY, CheckedSnapshots
from turnlog.services.runtime.waypoints import Waypoints, passed

MOST: Final = 2_000
"""Maximum number of cached states."""


@dataclass
class _Held:
    state: SessionState
    kept_at: int
    """Sequence of the latest snapshot."""


@dataclass
class HeldStates:
    """The cached states of a process."""

    snapshots: CheckedSnapshots
    _held: OrderedDict[tuple[str, str], _Held] = field(
        default_factory=OrderedDict[tuple[str, str], _Held]
    )
    _keeping: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def get(self, tenant: str, session: str) -> SessionState | None:
        """Return the cached state of a session, or None."""
        held = self._held.get((tenant, session))
        return held.state if held else None

    @property
    def states(self) -> tuple[SessionState, ...]:
        """All cached states."""
        return tuple(held.state for held in self._held.values())

    @property
    def latest(self) -> SessionState | None:
        """The cached state whose last event has the highest stream position."""
        return max(self.states, key=lambda state: state.head.stream_sequence, default=None)

    async def begun(self, tenant: str, session: str) -> SessionState | None:
        """Return the state to fold from: the cached one, or else the latest snapshot."""
        if state := self.get(tenant, session):
            return state
        state = await self.snapshots.load(tenant, session)
        if state is not None:
            self._put(_Held(state, kept_at=state.head.sequence))
        return state

    def hold(self, state: SessionState) -> None:
        """Cache a state, unless a later one of its session is cached already."""
        before = self._held.get((state.tenant, state.session))
        if before is None:
            self._put(_Held(state, kept_at=0))
        elif before.state.head.sequence < state.head.sequence:
            self._put(_Held(state, before.kept_at))

    def appended(self, before: SessionState | None, after: SessionState) -> None:
        """Save an interval snapshot if this process's append crossed an interval."""
        if passed(before, after):
            self._begin(Waypoints(self.snapshots).keep(after))

    def _put(self, held: _Held) -> None:
        state = held.state
        self._held[state.tenant, state.session] = held
        self._held.move_to_end((state.tenant, state.session))
        if len(self._held) > MOST:
            self._held.popitem(last=False)
        if state.head.sequence - held.kept_at >= EVERY:
            held.kept_at = state.head.sequence
            self._begin(self.snapshots.keep(state))

    def _begin(self, keeping: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(_done(keeping))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)


async def _done(keeping: Coroutine[None, None, None]) -> None:
    try:
        await keeping
    except Unavailable:
        return  # A snapshot only saves time, and a later one will do as well.
