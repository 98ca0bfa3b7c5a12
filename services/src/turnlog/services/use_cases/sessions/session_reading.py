"""Reading sessions: the state of one, from its own log, and lists of them from the read models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from turnlog.contract.session_payloads import (
    OpenTurnView,
    OriginRow,
    PendingApproval,
    RecordedChoice,
    SessionPage,
    SessionRow,
    SessionView,
    ShareView,
    UnreadableMessage,
)
from turnlog.contract.value_names import ShareAccess
from turnlog.events.content import get_plain_text
from turnlog.events.errors import Corrupt, Refused, UnreadableEnd
from turnlog.events.model.session_events import SessionDescribed, SessionOpened
from turnlog.events.seals.person_names import is_pseudonym
from turnlog.events.store.ports import EventLog
from turnlog.projections.session.open_turn import OpenTurn, list_undecided_tools
from turnlog.projections.session.state import SessionState
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import read_folded_sequence
from turnlog.projections.store.read.session_orders import (
    SessionOrder,
    format_page_mark,
    parse_page_mark,
)
from turnlog.projections.store.read.session_queries import SessionQuery
from turnlog.projections.store.read.session_queries import list_sessions as list_session_rows
from turnlog.services.command_handling.row_waits import RowWaits
from turnlog.services.seals.known_names import list_known_names
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.time_travel import TimeTravel


@dataclass(frozen=True, slots=True)
class SessionRowWaits:
    """Waits until the read models contain a sequence of a session."""

    command_handler: CommandHandler
    row_waits: RowWaits

    async def wait_for_session(self, state: SessionState, sequence: int) -> None:
        """Wait for a sequence of the session, as `RowWaits.wait_for_rows` does."""
        head, key = state.head.sequence, (state.tenant, state.session)
        if sequence > head:
            head = (await self.command_handler.load_last_event(*key, sequence)).sequence
        read_sequence = partial(read_folded_sequence, self.row_waits.store, *key)
        await self.row_waits.wait_for_rows(read_sequence, sequence, head)


@dataclass(frozen=True, slots=True)
class SessionReading:
    """Reads sessions and lists them."""

    time_travel: TimeTravel
    store: ReadModelStore
    row_waits: SessionRowWaits

    async def load_session(self, tenant: str, session: str, at: int | None = None) -> SessionView:
        """Return the state of a session, now or at a sequence, folded from its own log."""
        if at is None:
            state = await self.time_travel.command_handler.require_state(tenant, session)
        else:
            state = await self.time_travel.load_state(tenant, session, at)
        log = self.time_travel.command_handler.log
        unreadable = await log.find_unreadable_end(tenant, session)
        return _create_session_view(state, await _load_title(log, state), unreadable)

    async def is_owned_by(self, tenant: str, session: str, user: str | None) -> bool:
        """Return whether a session is a user's, which never changes; raises `Refused`.

        Of a session that was erased a pseudonym is the owner.
        """
        handler = self.time_travel.command_handler
        state = handler.state_cache.get_state(tenant, session)
        owner = (state or await handler.require_state(tenant, session)).owner
        if owner is None or user is None or not is_pseudonym(owner):
            return owner == user
        keys = handler.sealing.keys if handler.sealing else None
        return owner in await list_known_names(keys, tenant, user)

    async def load_share(self, tenant: str, session: str, user: str | None) -> ShareAccess | None:
        """Return what a user may do in a session of another one; raises `Refused`."""
        state = await self.time_travel.command_handler.require_state(tenant, session)
        return None if user is None else state.shares.get(user)

    async def list_sessions(
        self,
        tenant: str,
        query: SessionQuery,
        *,
        order: SessionOrder = "opened",
        limit: int,
        before: str | None = None,
        awaited: tuple[str, int] | None = None,
    ) -> SessionPage:
        """Return sessions in an order; `before` is the `next` of the previous page.

        `awaited` is a session and a sequence of it that the read models are to contain.
        """
        mark = None if before is None else parse_page_mark(before, order)
        if awaited is not None:
            await self._wait_for_session(tenant, *awaited)
        async with self.store.open_reader() as connection:
            page = await list_session_rows(
                connection, tenant, query, order=order, limit=limit, before=mark
            )
        after = None if page.before is None else format_page_mark(page.before, order)
        sessions = tuple(SessionRow.model_validate(row) for row in page.sessions)
        return SessionPage(sessions=sessions, next=after)

    async def _wait_for_session(self, tenant: str, session: str, sequence: int) -> None:
        state = await self.time_travel.command_handler.load_state(tenant, session)
        if state is None:
            raise Refused("unknown-session", "there is no such session", field="min_sequence")
        await self.row_waits.wait_for_session(state, sequence)


async def _load_title(log: EventLog, state: SessionState) -> str | None:
    """Return the title that was given, if it can be read."""
    if state.title is None:
        return None
    (recorded,) = await log.read_events_at(state.tenant, [state.title.place])
    if not isinstance(recorded.event, SessionOpened | SessionDescribed):
        raise Corrupt(f"event {recorded.sequence}", "it describes no session")
    return get_plain_text(recorded.event.title)


def _create_session_view(
    state: SessionState, title: str | None, unreadable: UnreadableEnd | None
) -> SessionView:
    opened, origin = state.open, state.origin
    return SessionView(
        session=state.session,
        sequence=state.head.sequence,
        blueprint=state.blueprint.name,
        version=state.blueprint.version,
        digest=state.blueprint.digest,
        profile=state.profile,
        model=state.model,
        attributes=state.attributes,
        closed=state.closed,
        turns=state.submitted,
        completed=state.completed,
        open=_create_open_turn_view(opened) if opened else None,
        waiting=tuple(waiting.turn for waiting in state.waiting),
        phase=state.phase,
        exchanges=state.exchanges,
        warnings=state.warnings,
        origin=OriginRow.model_validate(origin) if origin else None,
        choices=tuple(map(RecordedChoice.model_validate, state.choices)),
        title=title,
        labels=state.labels,
        metadata=state.metadata,
        owner=state.owner,
        shares=tuple(ShareView(user=user, access=how) for user, how in state.shares.items()),
        unreadable=unreadable and UnreadableMessage.model_validate(unreadable),
        sealed=state.sealed_under is not None,
        erased=state.erased,
    )


def _create_open_turn_view(opened: OpenTurn) -> OpenTurnView:
    return OpenTurnView(
        turn=opened.turn,
        attempt=opened.attempt,
        running=opened.is_running,
        released_at=opened.released_at,
        approvals=tuple(
            PendingApproval(
                approval=each.approval.number,
                call=each.use.call,
                id=each.use.id,
                tool=each.use.tool,
                digest=each.use.asked.digest,
                deadline=each.approval.deadline,
            )
            for each in list_undecided_tools(opened)
        ),
    )
