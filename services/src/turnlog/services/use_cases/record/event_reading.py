"""Reading stored events, of one session or of a tenant: pages, all of them, or past and then live.

Events are given as their stored bytes, so that a reader can check the hash chain itself: the
SHA-256 of an event is the `prevhash` of the session's next one. Of what belongs to a withheld reply
readers get another form, which has the replacement and names where the stored bytes are: an audit
asks for `stored`. A stream shows what was withheld before it began or before the event came; a
redaction that comes later is an event of the stream itself.

Names filter after past and live events are joined, so they cause no gaps. Unknown names are
refused, because they would never match.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from turnlog.contract.session_payloads import UnreadableMessage
from turnlog.contract.stream_payloads import UnreadablePayload
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused, StreamHole
from turnlog.events.log_token_join import ReplyPosition
from turnlog.events.registry import EVENT_NAMES, format_event_name
from turnlog.events.session_stream import SessionItem, SessionPosition, stream_session
from turnlog.events.store.ports import EventLog, RawEvent, TokenStream, TurnTokenEvent
from turnlog.events.stray_messages import decode_unless_stray
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.blueprint.validation.blueprint_faults import suggest_word
from turnlog.projections.session.decide import refuse_unknown_session
from turnlog.projections.session.state import SessionState
from turnlog.projections.session_views.withheld_events import RedactedTurns
from turnlog.services.api.published_events.event_pages import SessionPageHead, TenantPageHead
from turnlog.services.audit.redactions import RedactionCache, load_session_redactions
from turnlog.services.command_handling.row_waits import refuse_future
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.sessions.session_openings import SessionOpenings, SessionSelection
from turnlog.services.use_cases.record.streamed_pieces import build_piece
from turnlog.services.use_cases.record.tenant_tail import (
    StreamedEvent,
    TailEvent,
    TailItem,
    TenantTails,
)
from turnlog.services.use_cases.turns.turn_stream_events import create_cursor_refusal

_log = structlog.get_logger("turnlog.events")

DEFAULT_PAGE_SIZE: Final = 100

_NUMBER: Final = "(0|[1-9][0-9]{0,17})"

_CURSOR_PATTERN: Final = re.compile(rf"{_NUMBER}(?:\.{_NUMBER}\.{_NUMBER}\.{_NUMBER})?")
"""A position, and where the reader of a session's tokens is in the reply to its open turn."""


ALL_SESSIONS: Final = SessionSelection()


@dataclass(frozen=True, slots=True)
class EventSelection:
    """Which events to read, and in which form."""

    names: frozenset[str] | None = None
    """The event names; None for all."""
    stored: bool = False
    """Whether the stored bytes of texts are given that are withheld from other readers."""
    tokens: bool = False
    """Whether a stream has the replies too while they are generated."""
    sessions: SessionSelection = ALL_SESSIONS
    """Of which sessions, where all are read."""

    def narrow_to_sessions(
        self, *, session: str | None, blueprint: str | None, attributes: Mapping[str, str]
    ) -> EventSelection:
        """Return the selection of these events of some sessions only; see `SessionSelection`."""
        sessions = SessionSelection(session=session, blueprint=blueprint, attributes=attributes)
        return replace(self, sessions=sessions)

    def has_selected_name(self, event: RecordedEvent) -> bool:
        """Return whether an event has one of the selected names."""
        return self.names is None or format_event_name(event.envelope.type) in self.names


def parse_event_names(types: str | None) -> frozenset[str] | None:
    """Return the event names of a list with commas, or None for all."""
    if types is None:
        return None
    names = frozenset(name.strip() for name in types.split(","))
    for name in names - set(EVENT_NAMES):
        detail = f"there is no event {quote_sent_name(name)}"
        fix = suggest_word(name[:80], EVENT_NAMES)
        raise Refused("unknown-type", detail, field="types", fix=fix)
    return names


@dataclass(frozen=True, slots=True)
class SessionEventPage:
    """A page of a session's events as their reader gets them."""

    head: SessionPageHead
    events: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class TenantEventPage:
    """A page of the events of all sessions as their reader gets them."""

    head: TenantPageHead
    events: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class EventReading:
    """Reads the stored events of sessions."""

    command_handler: CommandHandler
    tokens: TokenStream
    redactions: RedactionCache = field(default_factory=RedactionCache)
    """The redactions that decide what readers of all sessions get."""
    tails: TenantTails = field(init=False)
    """What comes, for those who watch all sessions."""
    openings: SessionOpenings = field(init=False)
    """How the sessions were opened that are selected by it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tails", TenantTails(self.log, self.tokens))
        object.__setattr__(self, "openings", SessionOpenings(self.log))

    @property
    def log(self) -> EventLog:
        """The log of sessions."""
        return self.command_handler.log

    async def load_session_page(
        self,
        tenant: str,
        session: str,
        selection: EventSelection,
        *,
        after: int = 0,
        limit: int | None = DEFAULT_PAGE_SIZE,
    ) -> SessionEventPage:
        """Return a session's events after a sequence, at most `limit` of them."""
        last = await self.command_handler.load_last_event(tenant, session, after)
        refuse_future(after, last.sequence, "after")
        later = await self.command_handler.load_events_after(last, after)
        redacted = (
            RedactedTurns() if selection.stored else await load_session_redactions(self.log, last)
        )
        selected = [event for event in later if selection.has_selected_name(event)]
        page = selected[:limit]
        more = len(selected) > len(page)
        unreadable = await self.log.find_unreadable_end(tenant, session)
        head = SessionPageHead(
            session=session,
            sequence=last.sequence,
            after=page[-1].sequence if more else last.sequence,
            more=more,
            unreadable=unreadable and UnreadableMessage.model_validate(unreadable),
        )
        return SessionEventPage(head, [*map(redacted.format_for_reader, page)])

    async def load_tenant_page(
        self,
        tenant: str,
        selection: EventSelection,
        *,
        after: int = 0,
        limit: int = DEFAULT_PAGE_SIZE,
    ) -> TenantEventPage:
        """Return the events of all sessions after a stream sequence, at most `limit` of them.

        Where the log has lost an event, a page ends before it, and the next one raises `Corrupt`.
        """
        await self._check_position(tenant, after)
        redacted = await self._load_tenant_redactions(tenant, selection)
        page: list[bytes] = []
        unreadable: list[int] = []
        more, position = False, after
        async with aclosing(self._iterate_raw_events(tenant, after)) as raws:
            try:
                async for raw in raws:
                    more = len(page) == limit
                    if more:
                        break
                    position = raw.stream_sequence
                    event = _decode_raw_event(raw)
                    if event is None:
                        unreadable.append(raw.stream_sequence)
                    elif await self._is_selected(event, selection):
                        page.append(redacted.format_for_reader(event))
            except StreamHole:
                if position == after:
                    raise
                more = True
        head = TenantPageHead(after=position, more=more, unreadable=tuple(unreadable))
        return TenantEventPage(head, page)

    async def _is_selected(self, event: RecordedEvent, selection: EventSelection) -> bool:
        return selection.has_selected_name(event) and await self.openings.has_selected_session(
            event.tenant, event.session, selection.sessions
        )

    async def _check_position(self, tenant: str, position: int) -> None:
        """Refuse a stream sequence that the log has not reached."""
        if position and position > await self.log.get_last_stream_sequence(tenant):
            fix = "continue from the `after` of a page, or from the id of an event of the stream"
            raise Refused("not-there-yet", "the log has no such position", field="after", fix=fix)

    async def read_tenant_events(
        self, tenant: str, selection: EventSelection, *, after: int = 0, limit: int | None = None
    ) -> AsyncGenerator[bytes]:
        """Return the events of all sessions after a stream sequence, undecodable ones left out.

        Iterating raises `StreamHole` where the log has lost an event.
        """
        await self._check_position(tenant, after)
        return self._iterate_tenant_events(tenant, selection, after, limit)

    async def _iterate_tenant_events(
        self, tenant: str, selection: EventSelection, after: int, left: int | None
    ) -> AsyncGenerator[bytes]:
        redacted = await self._load_tenant_redactions(tenant, selection)
        async with aclosing(self._iterate_raw_events(tenant, after)) as raws:
            async for raw in raws:
                if left == 0:
                    return
                event = _decode_raw_event(raw)
                if event is not None and await self._is_selected(event, selection):
                    yield redacted.format_for_reader(event)
                    left = None if left is None else left - 1

    async def _load_tenant_redactions(
        self, tenant: str, selection: EventSelection
    ) -> RedactedTurns:
        if selection.stored:
            return RedactedTurns()
        return await self.redactions.load_redactions(self.log, tenant)

    async def _iterate_raw_events(self, tenant: str, after: int) -> AsyncGenerator[RawEvent]:
        async with aclosing(self.log.stream_raw_events(tenant, after, live=False)) as bulks:
            async for bulk in bulks:
                for raw in bulk:
                    yield raw

    async def open_session_stream(
        self, tenant: str, session: str, after: str | None, selection: EventSelection
    ) -> AsyncGenerator[StreamedEvent]:
        """Return the stream of a session's events after a sequence, past and then live.

        With tokens, the reply to its open turn is between them, and a cursor names the place there.
        Where the log has lost an event it ends with `unreadable`, whose position is the one
        before, so that who resumes there is told again.
        """
        state = await self.command_handler.load_state(tenant, session, leader=True)
        if state is None:
            raise refuse_unknown_session()
        position = _parse_cursor(after)
        if position.sequence > state.head.sequence:
            raise create_cursor_refusal(f"the session has {state.head.sequence} events")
        if position.reply.turn > state.submitted:
            raise create_cursor_refusal(f"the session has {state.submitted} turns")
        if selection.tokens:
            position = await self._find_reply(state, position)
        last = await self.command_handler.load_last_event(tenant, session)
        redacted = None if selection.stored else await load_session_redactions(self.log, last)
        items = stream_session(
            log=self.log,
            tokens=self.tokens,
            tenant=tenant,
            session=session,
            position=position,
            upto=state.head.sequence if selection.tokens else None,
        )
        return _iterate_session_stream(
            session=session,
            streamed=items,
            start=position,
            selection=selection,
            redacted=redacted,
        )

    async def _find_reply(self, state: SessionState, position: SessionPosition) -> SessionPosition:
        """Return the position in the reply to the open turn, if that began before a sequence."""
        if state.open is None or position.reply.turn:
            return position
        turn = state.open.submission.turn
        events = await self.command_handler.load_turn_events(state, turn)
        if events[0].sequence > position.sequence:
            return position
        return SessionPosition(position.sequence, ReplyPosition(turn=turn))

    async def open_tenant_stream(
        self, tenant: str, after: str | None, selection: EventSelection
    ) -> AsyncGenerator[StreamedEvent]:
        """Return the stream of all sessions' events after a stream sequence, as that of one."""
        position = _parse_cursor(after)
        if position.reply.turn:
            raise create_cursor_refusal("it is of the stream of one session")
        place = position.sequence
        if place:
            await _check_position_exists(self.log, tenant, place)
        redacted = (
            None if selection.stored else await self.redactions.load_redactions(self.log, tenant)
        )
        bulks = self.tails.stream_events(tenant, place, has_tokens=selection.tokens)
        events = _iterate_tenant_stream(bulks, place, selection, redacted)
        if selection.sessions == ALL_SESSIONS:
            return events
        return self._select_sessions(tenant, events, selection.sessions)

    async def _select_sessions(
        self, tenant: str, streamed: AsyncGenerator[StreamedEvent], sessions: SessionSelection
    ) -> AsyncGenerator[StreamedEvent]:
        async with aclosing(streamed) as events:
            async for event in events:
                if not event.session or await self.openings.has_selected_session(
                    tenant, event.session, sessions
                ):
                    yield event


def _decode_raw_event(raw: RawEvent) -> RecordedEvent | None:
    with suppress(Corrupt):
        return decode_unless_stray(raw.subject, raw.stored, raw.stream_sequence)
    return None


def _parse_cursor(after: str | None) -> SessionPosition:
    if after is None:
        return SessionPosition()
    if (found := _CURSOR_PATTERN.fullmatch(after)) is None:
        raise create_cursor_refusal("it is not the id of an event")
    sequence, turn, attempt, offset = (int(number or 0) for number in found.groups())
    return SessionPosition(sequence, ReplyPosition(turn=turn, attempt=attempt, offset=offset))


def _format_cursor(position: SessionPosition, selection: EventSelection) -> str:
    numbers = position.numbers if selection.tokens and position.reply.turn else position.numbers[:1]
    return ".".join(map(str, numbers))


async def _check_position_exists(log: EventLog, tenant: str, position: int) -> None:
    try:
        await log.read_events_at(tenant, [position])
    except Corrupt:
        raise create_cursor_refusal("no event has this id") from None


async def _iterate_session_stream(
    session: str,
    streamed: AsyncGenerator[SessionItem],
    start: SessionPosition,
    selection: EventSelection,
    redacted: RedactedTurns | None,
) -> AsyncGenerator[StreamedEvent]:
    cursor = _format_cursor(start, selection)
    async with aclosing(streamed) as items:
        try:
            async for position, item in items:
                cursor = _format_cursor(position, selection)
                if isinstance(item, TurnTokenEvent):
                    if (piece := build_piece(session, item)) is not None:
                        yield StreamedEvent(
                            name=piece.event,
                            data=piece.model_dump_json().encode(),
                            cursor=cursor,
                        )
                    continue
                data = _format_event(item, redacted)
                if (name := _select_event_name(item, selection.names)) is not None:
                    yield StreamedEvent(name=name, data=data, cursor=cursor)
        except Corrupt as corrupt:
            yield _end_stream(corrupt, cursor)


async def _iterate_tenant_stream(
    streamed: AsyncGenerator[Sequence[TailItem]],
    position: int,
    selection: EventSelection,
    redacted: RedactedTurns | None,
) -> AsyncGenerator[StreamedEvent]:
    async with aclosing(streamed) as bulks:
        try:
            async for bulk in bulks:
                for each in bulk:
                    if isinstance(each, StreamedEvent):
                        yield each
                        continue
                    position = each.position
                    found = _format_tail_event(each, redacted)
                    if found is not None and _is_wanted(found.name, selection.names):
                        yield found
        except Corrupt as corrupt:
            yield _end_stream(corrupt, str(position))


def _end_stream(corrupt: Corrupt, cursor: str) -> StreamedEvent:
    """Return the event with which a stream ends that cannot be read on."""
    _log.error("stream-unreadable", where=corrupt.where, detail=corrupt.detail)
    return _create_unreadable(corrupt.where, corrupt.detail, cursor)


def _create_unreadable(subject: str, detail: str, cursor: str) -> StreamedEvent:
    payload = UnreadablePayload(subject=subject, detail=detail)
    return StreamedEvent(name=payload.event, data=payload.model_dump_json().encode(), cursor=cursor)


def _format_tail_event(event: TailEvent, redacted: RedactedTurns | None) -> StreamedEvent | None:
    try:
        return event.format_for(redacted)
    except Corrupt as corrupt:
        return _create_unreadable(event.raw.subject, corrupt.detail, str(event.position))


def _is_wanted(name: str, names: Collection[str] | None) -> bool:
    return names is None or name in names or name == UnreadablePayload.event


def _format_event(event: RecordedEvent, redacted: RedactedTurns | None) -> bytes:
    """Return an event as this reader gets it; a redaction applies to what follows it."""
    if redacted is None:
        return event.opened_bytes
    redacted.apply_event(event)
    return redacted.format_for_reader(event)


def _select_event_name(event: RecordedEvent, names: Collection[str] | None) -> str | None:
    name = format_event_name(event.envelope.type)
    return name if names is None or name in names else None
