"""Forking a session: open the fork, then copy the origin's events in pages.

A page is one atomic append. A process that dies between two pages leaves a fork that is known to be
incomplete. The next request for the same fork continues the copy, whichever process began it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from turnlog.events import codec
from turnlog.events.copying import copied
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.session import BlueprintRef
from turnlog.projections.session.commands import ForkSession
from turnlog.projections.session.forking import missing, opening
from turnlog.projections.session.state import SessionState
from turnlog.services.runtime.past import Past
from turnlog.services.runtime.sessions import By

PAGE: Final = 256
"""Maximum number of events in one append."""
PAGE_BYTES: Final = 4_000_000
"""Maximum stored bytes of one append, unless it is a single event."""


@dataclass(frozen=True, slots=True)
class Place:
    """The point of the origin session at which a fork begins."""

    tenant: str
    session: str
    at: int
    """Sequence of the last event that the fork shares with its origin."""


@dataclass(frozen=True, slots=True)
class Forking:
    """Creates forks of sessions."""

    past: Past

    async def fork(
        self, place: Place, session: str, by: By, command: codec.Command | None
    ) -> BlueprintRef:
        """Create a fork and return the blueprint that the origin had at the fork point.

        Raises `Refused` when no fork can begin there.
        """
        tenant, origin = place.tenant, place.session
        state = await self.past.state(tenant, origin, place.at)
        first = await self.past.event(tenant, origin, 1)
        asked = ForkSession(opening(state, first))
        done = await self.past.sessions.act(tenant, session, asked, by, command)
        await self._complete(done.state, place)
        return state.blueprint

    async def _complete(self, state: SessionState, place: Place) -> None:
        sessions = self.past.sessions
        while missing(state):
            events = await self._page(place, state.head.sequence)
            batch = copied(state.session, state.head, events, sessions.source)
            done = await sessions.put(state, batch)
            state = done.state if done else await self._latest(state)

    async def _page(self, place: Place, after: int) -> Sequence[Recorded]:
        """Return the origin's next events, as many as fit into one append."""
        sessions = self.past.sessions
        end = min(after + PAGE, place.at)
        last = await sessions.last(place.tenant, place.session, end)
        upto = await sessions.log.find(place.tenant, place.session, end, last)
        events = await sessions.behind(upto, after)
        sizes = accumulate(len(event.stored) for event in events)
        return events[: max(1, sum(size <= PAGE_BYTES for size in sizes))]

    async def _latest(self, state: SessionState) -> SessionState:
        """Return the fork's latest state, because another process copies too."""
        latest = await self.past.sessions.load(state.tenant, state.session, leader=True)
        if latest is None:
            raise Corrupt(f"log of session {state.session}", "it is gone")
        return latest
