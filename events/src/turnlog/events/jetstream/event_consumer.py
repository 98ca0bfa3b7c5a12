"""The typed consumer: events of a session or a tenant, stored then live, resumable by cursor.

It only reads and leaves no state on the server. The cursor is that of the latest item. A consumer
that stores it once it has handled the item misses nothing after a crash and sees nothing twice but
an item that it handled without storing the cursor.

A cursor is a short text. It identifies the log and the session or tenant, so that a cursor from
elsewhere, or from a log that was lost and created again, is refused.

Token events of a turn are yielded between the event that opens it and the one that settles it, as
`log_token_join` joins them with the log: only if they continue the text yielded before. The text
received since the last `AttemptReset` is therefore always a prefix of the recorded reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Self

from turnlog.events.async_tasks import Watch, merge_watches, wait_for_wake
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused, Unavailable
from turnlog.events.jetstream.jetstream_client import JetStreamClient, build_client
from turnlog.events.jetstream.js_api import fetch_stream_info
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.log_token_join import (
    ReplyPosition,
    ReplyRecord,
    ReplyStep,
    advance_to_recorded_attempt,
    apply_log_events,
    apply_token_event,
    create_resumed_record,
    parse_cursor_number,
)
from turnlog.events.model.turn_events import (
    TurnCompleted,
    TurnFailed,
    TurnReleased,
    TurnSubmitted,
    is_end_of_turn,
)
from turnlog.events.registry import EVENT_NAMES, format_event_name
from turnlog.events.store.ports import EventLog, LogIdentity, RawEvent, TokenStream
from turnlog.events.stray_messages import decode_unless_stray, describe_stray
from turnlog.events.subjects import SESSION_HISTORY
from turnlog.events.tokens import AttemptAlive, TokenEvent


@dataclass(frozen=True, slots=True)
class TenantPosition:
    """A position among all events of a tenant."""

    stream_sequence: int = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in the cursor."""
        return (self.stream_sequence,)


@dataclass(frozen=True, slots=True)
class SessionPosition:
    """A position in a session: after an event, and within the reply to its open turn."""

    sequence: int = 0
    reply: ReplyPosition = field(default_factory=ReplyPosition)
    """The position in the reply to the open turn."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in the cursor; a closed attempt has one code point more."""
        reply = self.reply
        return (self.sequence, reply.turn, reply.attempt, reply.offset + reply.is_closed)

    def advance_past(self, event: RecordedEvent) -> SessionPosition:
        """Return the position after an event; how it moves in an open reply is up to the join."""
        match event.event:
            case TurnSubmitted(turn=turn) | TurnReleased(turn=turn):
                return SessionPosition(event.sequence, ReplyPosition(turn=turn))
            case _ if is_end_of_turn(event.event, self.reply.turn):
                return SessionPosition(event.sequence)
            case _:
                return replace(self, sequence=event.sequence)


StreamPosition = TenantPosition | SessionPosition


@dataclass(frozen=True, slots=True)
class CursorCodec:
    """Formats and parses the cursors of one session or tenant on one log."""

    scope: str

    def format_cursor(self, position: StreamPosition) -> str:
        """Return the cursor of a position."""
        return ".".join((self.scope, *map(str, position.numbers)))

    def parse_tenant_cursor(self, cursor: str | None) -> TenantPosition:
        """Parse a tenant cursor; None is the beginning."""
        if cursor is None:
            return TenantPosition()
        return TenantPosition(*self._parse_numbers(cursor, 1))

    def parse_session_cursor(self, cursor: str | None) -> SessionPosition:
        """Parse a session cursor; None is the beginning."""
        if cursor is None:
            return SessionPosition()
        sequence, turn, attempt, offset = self._parse_numbers(cursor, 4)
        return SessionPosition(sequence, ReplyPosition(turn=turn, attempt=attempt, offset=offset))

    def _parse_numbers(self, cursor: str, count: int) -> list[int]:
        scope, *parts = cursor.split(".")
        numbers = [number for part in parts if (number := parse_cursor_number(part)) is not None]
        if scope != self.scope or not len(numbers) == len(parts) == count:
            raise build_cursor_refusal("bad-cursor", "it is not a cursor of this stream")
        return numbers


def build_cursor_codec(identity: LogIdentity, tenant: str, session: str | None) -> CursorCodec:
    """Return the codec for cursors of a session, or of all events of a tenant, on this log."""
    named = f"{identity.stream}/{identity.created}/{tenant}/{session or ''}"
    return CursorCodec(sha256(named.encode()).hexdigest()[:8])


def build_cursor_refusal(code: str, detail: str) -> Refused:
    """Return the error for a refused cursor."""
    return Refused(
        code,
        detail,
        field="after",
        fix="use a cursor from this stream, or none to start at the beginning",
    )


@dataclass(frozen=True, slots=True)
class TurnTokenEvent:
    """A token event of a turn, while its reply is generated."""

    turn: int
    event: TokenEvent


SessionItem = tuple[SessionPosition, RecordedEvent | TurnTokenEvent]


async def stream_session(
    log: EventLog,
    tokens: TokenStream,
    tenant: str,
    session: str,
    position: SessionPosition,
    upto: int | None,
) -> AsyncGenerator[SessionItem]:
    """Yield the events after `position`, and token events between them from sequence `upto` on.

    Turns that open before `upto` are history, except the one that was being streamed at `position`.
    Without `upto` no token events are yielded.
    """
    resumed_turn = position.reply.turn
    wake = asyncio.Event()
    async with log.open_session_watch(tenant, session, position.sequence, wake) as events:
        while True:
            turn = position.reply.turn
            is_live = upto is not None and (position.sequence >= upto or turn == resumed_turn)
            if turn and is_live:
                async with aclosing(
                    _stream_open_turn(
                        events=events,
                        wake=wake,
                        tokens=tokens,
                        tenant=tenant,
                        session=session,
                        position=position,
                    )
                ) as items:
                    async for item in items:
                        position, _ = item
                        yield item
            else:
                wake.clear()
                event = await events.take_next()
                if event is None:
                    await wait_for_wake(wake)
                    continue
                position = position.advance_past(event)
                yield position, event


async def _stream_open_turn(
    events: Watch[RecordedEvent],
    wake: asyncio.Event,
    tokens: TokenStream,
    tenant: str,
    session: str,
    position: SessionPosition,
) -> AsyncGenerator[SessionItem]:
    """Yield token events and events until the open turn is settled.

    The event that settles the turn has the recorded reply, so its text is not repeated as tokens;
    only stored token events that had not arrived yet come before it.
    """
    turn = position.reply.turn
    record = create_resumed_record(position.reply)
    async with (
        tokens.open_turn_watch(tenant, session, turn, wake) as live_tokens,
        aclosing(merge_watches(wake, live_tokens, events)) as merged,
    ):
        async for arrived in merged:
            if isinstance(arrived, RecordedEvent):
                record = apply_log_events(record, (arrived,))
                step = advance_to_recorded_attempt(position.reply, record)
                position, items = _apply_reply_step(position, step)
                for missed in await _read_missed_tokens(tokens, tenant, session, record):
                    step = apply_token_event(position.reply, missed)
                    position, more = _apply_reply_step(position, step)
                    items += more
                position = position.advance_past(arrived)
                items.append((position, arrived))
            else:
                step = apply_token_event(position.reply, arrived)
                position, items = _apply_reply_step(position, step)
            for item in items:
                yield item
            if position.reply.turn != turn:
                return


def _apply_reply_step(
    position: SessionPosition, step: ReplyStep
) -> tuple[SessionPosition, list[SessionItem]]:
    """Return the position after a step, and its items; heartbeats are left out."""
    reply, reply_items = step
    items: list[SessionItem] = [
        (replace(position, reply=item.position), TurnTokenEvent(reply.turn, item.event))
        for item in reply_items
        if not isinstance(item.event, AttemptAlive)
    ]
    return replace(position, reply=reply), items


async def _read_missed_tokens(
    tokens: TokenStream, tenant: str, session: str, record: ReplyRecord
) -> tuple[TokenEvent, ...]:
    """Return the stored token events of a turn that ended with a text; none if they are lost."""
    if not isinstance(record.end_event, TurnCompleted | TurnFailed):
        return ()
    try:
        stored = await tokens.read_token_events(tenant, session, record.turn)
    except Unavailable:
        return ()
    return tuple(stamped.event for stamped in stored)


@dataclass(frozen=True, slots=True)
class UndecodableItem:
    """Stored bytes that are no event, or cannot be decoded; skip them, they stop no consumer."""

    raw: RawEvent
    detail: str


ConsumerItem = RecordedEvent | TurnTokenEvent | UndecodableItem

ConsumerItems = AsyncGenerator[tuple[StreamPosition, ConsumerItem]]


class EventSubscription:
    """Yields items, and has the cursor of the latest one."""

    def __init__(
        self,
        start: StreamPosition,
        items: ConsumerItems,
        cursors: CursorCodec,
        types: Collection[str] | None,
    ) -> None:
        self._items = items
        self._cursors = cursors
        self._types = types
        self._position = start

    @property
    def cursor(self) -> str:
        """Where to resume after the latest item; store it once that is handled."""
        return self._cursors.format_cursor(self._position)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerItem:
        while True:
            self._position, item = await anext(self._items)
            if self._is_wanted(item):
                return item

    def _is_wanted(self, item: ConsumerItem) -> bool:
        if self._types is None or isinstance(item, TurnTokenEvent):
            return True
        return (
            isinstance(item, RecordedEvent) and format_event_name(item.envelope.type) in self._types
        )


@asynccontextmanager
async def subscribe_events(
    url: str,
    *,
    tenant: str = "default",
    session: str | None = None,
    types: Collection[str] | None = None,
    tokens: bool = False,
    after: str | None = None,
) -> AsyncGenerator[EventSubscription]:
    """Yield a stream of the events of a session or a whole tenant, from a cursor on, forever.

    `types` are names such as `turn-completed`. With `tokens`, a session's reply is streamed before
    the event that records it. Refuses unknown names and cursors of another stream.
    """
    _check_filter(types, session, tokens=tokens)
    async with open_connection(url, name="turnlog-consumer") as connection:
        on = build_client(connection, tenant, session)
        if session is None:
            start, items, cursors = await _open_tenant_stream(on, tenant, after)
        else:
            start, items, cursors = await _open_session_stream(
                on, tenant, session, after, tokens=tokens
            )
        async with aclosing(items):
            yield EventSubscription(start, items, cursors, types)


def _check_filter(types: Collection[str] | None, session: str | None, *, tokens: bool) -> None:
    if unknown := sorted(set(types or ()) - set(EVENT_NAMES)):
        fix = f"use some of {', '.join(EVENT_NAMES)}"
        raise Refused("unknown-type", f"no event is named {unknown[0]!r}", field="types", fix=fix)
    if tokens and session is None:
        fix = "name the session whose replies to receive"
        raise Refused("no-session", "token events belong to one session", field="session", fix=fix)


async def _open_tenant_stream(
    on: JetStreamClient, tenant: str, after: str | None
) -> tuple[StreamPosition, ConsumerItems, CursorCodec]:
    stream = SESSION_HISTORY.find_stream(tenant)
    facts = await fetch_stream_info(on.connection, stream)
    cursors = build_cursor_codec(LogIdentity(stream, facts.created), tenant, None)
    start = cursors.parse_tenant_cursor(after)
    if after is not None and start.stream_sequence > facts.last_sequence:
        raise build_cursor_refusal("future-cursor", "it is ahead of the log")
    return start, _stream_tenant(on.log, tenant, start), cursors


async def _stream_tenant(log: EventLog, tenant: str, start: TenantPosition) -> ConsumerItems:
    async with aclosing(log.stream_raw_events(tenant, start.stream_sequence, live=True)) as bulks:
        async for bulk in bulks:
            for raw in bulk:
                yield TenantPosition(raw.stream_sequence), _decode_raw_event(raw)


def _decode_raw_event(raw: RawEvent) -> RecordedEvent | UndecodableItem:
    try:
        event = decode_unless_stray(raw.subject, raw.stored, raw.stream_sequence)
    except Corrupt as broken:
        return UndecodableItem(raw, str(broken))
    return event or UndecodableItem(raw, describe_stray(raw.subject, raw.stored) or "")


async def _open_session_stream(
    on: JetStreamClient, tenant: str, session: str, after: str | None, *, tokens: bool
) -> tuple[StreamPosition, ConsumerItems, CursorCodec]:
    cursors = build_cursor_codec(await on.log.get_identity(tenant), tenant, session)
    start = cursors.parse_session_cursor(after)
    head = await on.log.read_last_event(tenant, session, leader=True)
    upto = head.sequence if head else 0
    if after is not None and start.sequence > upto:
        raise build_cursor_refusal("future-cursor", "it is ahead of the session")
    items = stream_session(
        log=on.log,
        tokens=on.tokens,
        tenant=tenant,
        session=session,
        position=start,
        upto=upto if tokens else None,
    )
    return start, items, cursors
