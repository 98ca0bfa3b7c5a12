"""Forking a session: open the fork, then copy the origin's events in pages.

A page is one atomic append. A process that dies between two pages leaves a fork that is known to be
incomplete. The next request for the same fork continues the copy, whichever process began it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from turnlog.contract.session_payloads import ForkedSession, OriginRow
from turnlog.contract.session_requests import ForkSessionRequest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.fork_copy import copy_events
from turnlog.events.ids import validate_id
from turnlog.events.model.session_events import BlueprintRef
from turnlog.projections.session.commands import ForkSession
from turnlog.projections.session.rules.erasure_rules import build_already_erased
from turnlog.projections.session.rules.fork_rules import build_fork_opening, count_missing_events
from turnlog.projections.session.state import SessionState
from turnlog.services.command_handling.callers import Caller
from turnlog.services.sessions.time_travel import TimeTravel

COPY_PAGE_EVENTS: Final = 256
"""Maximum number of events in one append."""

COPY_PAGE_BYTES: Final = 4_000_000
"""Maximum stored bytes of one append, unless it is a single event."""


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """The point of the origin session at which a fork begins."""

    tenant: str
    session: str
    at: int
    """Sequence of the last event that the fork shares with its origin."""


@dataclass(frozen=True, slots=True)
class SessionForking:
    """Forks sessions."""

    time_travel: TimeTravel

    async def fork_session(
        self, caller: Caller, session: str, request: ForkSessionRequest
    ) -> ForkedSession:
        """Open a session with the history of another one up to a sequence.

        With an idempotency key and without an id, a retry finds the fork of the first request.
        Raises `Refused` when no fork can begin there.
        """
        default_id = caller.derive_session_id() or self.time_travel.command_handler.create_id()
        fork = validate_id(default_id if request.session is None else request.session, "session")
        blueprint = await self._create_fork(
            caller, ForkPoint(caller.tenant, session, request.at), fork
        )
        return ForkedSession(
            session=fork,
            origin=OriginRow(kind="fork", session=session, sequence=request.at),
            blueprint=blueprint.name,
            digest=blueprint.digest,
            sequence=request.at,
        )

    async def _create_fork(self, caller: Caller, fork_point: ForkPoint, fork: str) -> BlueprintRef:
        """Create a fork and return the blueprint that the origin had at the fork point."""
        tenant, origin = fork_point.tenant, fork_point.session
        state = await self.time_travel.load_state(tenant, origin, fork_point.at)
        await self._require_not_erased_since(fork_point)
        first = await self.time_travel.load_event(tenant, origin, 1)
        done = await self.time_travel.command_handler.handle(
            tenant,
            fork,
            ForkSession(build_fork_opening(state, first)),
            caller.metadata,
            command=caller.command,
        )
        await self._copy_missing_events(done.state, fork_point)
        # An erasure that began meanwhile may not have found the fork, which is of no use then.
        await self._require_not_erased_since(fork_point)
        return state.blueprint

    async def _require_not_erased_since(self, fork_point: ForkPoint) -> None:
        """Refuse a fork of what was erased later, since it would lack the event that says so."""
        handler = self.time_travel.command_handler
        origin = await handler.load_state(fork_point.tenant, fork_point.session, leader=True)
        if origin and origin.erased:
            raise build_already_erased()
        if origin and origin.erased_in > fork_point.at:
            detail = f"something of the session was erased by event {origin.erased_in}"
            fix = f"fork it at {origin.erased_in} or later"
            raise Refused("erased-since", detail, field="at", fix=fix)

    async def _copy_missing_events(self, state: SessionState, fork_point: ForkPoint) -> None:
        sessions = self.time_travel.command_handler
        while count_missing_events(state):
            events = await self._load_copy_page(fork_point, state.head.sequence)
            batch = copy_events(state.session, state.head, events, sessions.source)
            done = await sessions.append_batch(state, batch)
            state = done.state if done else await self._load_latest_state(state)

    async def _load_copy_page(self, fork_point: ForkPoint, after: int) -> Sequence[RecordedEvent]:
        """Return the origin's next events, as many as fit into one append."""
        sessions = self.time_travel.command_handler
        end = min(after + COPY_PAGE_EVENTS, fork_point.at)
        last = await sessions.load_last_event(fork_point.tenant, fork_point.session, end)
        upto = await sessions.log.find_event(fork_point.tenant, fork_point.session, end, last)
        events = await sessions.load_events_after(upto, after)
        sizes = accumulate(len(event.stored) for event in events)
        return events[: max(1, sum(size <= COPY_PAGE_BYTES for size in sizes))]

    async def _load_latest_state(self, state: SessionState) -> SessionState:
        """Return the fork's latest state, because another process copies too."""
        latest = await self.time_travel.command_handler.load_state(
            state.tenant, state.session, leader=True
        )
        if latest is None:
            raise Corrupt(f"log of session {state.session}", "the session is missing from the log")
        return latest
