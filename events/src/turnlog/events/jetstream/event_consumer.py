"""The typed consumer: events of a session or a tenant, stored then live, resumable by cursor.

It only reads and leaves no state on the server. An item counts as handled when the next one is
requested: a consumer that stores the cursor misses nothing after a crash, and may see the last item
twice.

A cursor is a short text. It identifies the log and the session or tenant, so that a cursor from
elsewhere, or from a log that was lost and created again, is refused.

Token events of a turn are yielded between the event that opens it and the one that settles it, and
only if they continue the text yielded before. The received text is therefore always a prefix of the
recorded reply.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, Self

from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused, Unavailable
from turnlog.events.ids import find_session_stream
from turnlog.events.jetstream.jetstream_client import JetStreamClient, build_client
from turnlog.events.jetstream.js_api import fetch_stream_info
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.model.turn_events import (
    TurnReleased,
    TurnSubmitted,
    is_end_of_turn,
)
from turnlog.events.registry import EVENT_NAMES, format_event_name
from turnlog.events.store.ports import EventLog, LogIdentity, RawEvent, TokenStream
from turnlog.events.tokens import AttemptAlive, AttemptClosed, AttemptReset, Token, TokenEvent

_CURSOR_REGEX: Final = re.compile(r"([0-9a-f]{8})((?:\.[0-9]{1,18})+)")


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
    turn: int = 0
    """The open turn; 0 if none is open."""
    attempt: int = 0
    """The highest attempt seen of that turn."""
    offset: int = 0
    """Code points received of that attempt; one more after it was closed."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in the cursor."""
        return (self.sequence, self.turn, self.attempt, self.offset)

    def advance_past(self, event: RecordedEvent) -> SessionPosition:
        """Return the position after an event."""
        match event.event:
            case TurnSubmitted(turn=turn) | TurnReleased(turn=turn):
                return SessionPosition(event.sequence, turn)
            case _ if is_end_of_turn(event.event, self.turn):
                return SessionPosition(event.sequence)
            case _:
                return replace(self, sequence=event.sequence)

    def advance_by_token(self, event: TokenEvent) -> SessionPosition | None:
        """Return the position after a token event; None if it does not continue from here."""
        later = event.attempt > self.attempt
        here = 0 if later else self.offset
        match event:
            case _ if event.attempt < self.attempt:
                return None
            case Token(offset=offset, text=text) if text and offset == here:
                return replace(self, attempt=event.attempt, offset=offset + len(text))
            case AttemptClosed(length=length) if length == here:
                return replace(self, attempt=event.attempt, offset=length + 1)
            case AttemptReset() if later:
                return replace(self, attempt=event.attempt, offset=0)
            case Token() | AttemptClosed() | AttemptReset() | AttemptAlive():
                return None


StreamPosition = TenantPosition | SessionPosition


@dataclass(frozen=True, slots=True)
class CursorCodec:
    """Formats and parses the cursors of one session or tenant on one log."""

    scope: str

    def format_cursor(self, place: StreamPosition) -> str:
        """Return the cursor of a position."""
        return ".".join((self.scope, *map(str, place.numbers)))

    def parse_tenant_cursor(self, cursor: str | None) -> TenantPosition:
        """Parse a tenant cursor; None is the beginning."""
        return (
            TenantPosition(*self._parse_numbers(cursor, 1))
            if cursor is not None
            else TenantPosition()
        )

    def parse_session_cursor(self, cursor: str | None) -> SessionPosition:
        """Parse a session cursor; None is the beginning."""
        return (
            SessionPosition(*self._parse_numbers(cursor, 4))
            if cursor is not None
            else SessionPosition()
        )

    def _parse_numbers(self, cursor: str, count: int) -> list[int]:
        match = _CURSOR_REGEX.fullmatch(cursor)
        numbers = [int(number) for number in match[2].split(".")[1:]] if match else []
        if match is None or len(numbers) != count or match[1] != self.scope:
            raise build_cursor_refusal("bad-cursor", cursor, "is not a cursor of this stream")
        return numbers


def build_cursor_codec(identity: LogIdentity, tenant: str, session: str | None) -> CursorCodec:
    """Return the codec for cursors of a session, or of all events of a tenant, on this log."""
    named = f"{identity.stream}/{identity.created}/{tenant}/{session or ''}"
    return CursorCodec(sha256(named.encode()).hexdigest()[:8])


def build_cursor_refusal(code: str, cursor: str, detail: str) -> Refused:
    """Return the error for a refused cursor."""
    return Refused(
        code,
        f"{cursor[:80]!r} {detail}",
        field="after",
        fix="give a cursor that this very stream gave, or none to begin at the beginning",
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
    place: SessionPosition,
    upto: int | None,
) -> AsyncGenerator[SessionItem]:
    """Yield the events after `place`, and token events between them from sequence `upto` on.

    Turns that open before `upto` are history, except the one that was being streamed at `place`.
    Without `upto` no token events are yielded.
    """
    resumed = place.turn
    async with aclosing(log.watch_session(tenant, session, place.sequence)) as events:
        while True:
            present = upto is not None and (place.sequence >= upto or place.turn == resumed)
            if place.turn and present:
                async with aclosing(
                    _stream_open_turn(events, tokens, tenant, session, place)
                ) as told:
                    async for reached, item in told:
                        place = reached
                        yield place, item
            else:
                event = await anext(events)
                place = place.advance_past(event)
                yield place, event


async def _stream_open_turn(
    events: AsyncGenerator[RecordedEvent],
    tokens: TokenStream,
    tenant: str,
    session: str,
    place: SessionPosition,
) -> AsyncGenerator[SessionItem]:
    """Yield token events and events until the open turn is settled."""
    turn = place.turn
    async with (
        tokens.watch_turn(tenant, session, turn) as words,
        aclosing(_merge_streams(events, words)) as merged,
    ):
        async for item in merged:
            settled = isinstance(item, RecordedEvent) and place.advance_past(item).turn != turn
            for word in await _read_missed_tokens(tokens, tenant, session, turn) if settled else ():
                if heard := place.advance_by_token(word):
                    place = heard
                    yield place, TurnTokenEvent(turn, word)
            if isinstance(item, RecordedEvent):
                place = place.advance_past(item)
                yield place, item
            elif heard := place.advance_by_token(item):
                place = heard
                yield place, TurnTokenEvent(turn, item)
            if settled:
                return


async def _read_missed_tokens(
    tokens: TokenStream, tenant: str, session: str, turn: int
) -> tuple[TokenEvent, ...]:
    """Return the stored token events of the turn, or none if they cannot be read."""
    try:
        held = await tokens.read_token_events(tenant, session, turn)
    except Unavailable:
        return ()
    return tuple(stamped.event for stamped in held)


async def _merge_streams(
    events: AsyncGenerator[RecordedEvent], words: AsyncGenerator[TokenEvent]
) -> AsyncGenerator[RecordedEvent | TokenEvent]:
    """Yield items of both streams as they arrive; an item is only taken when it is yielded."""
    event: asyncio.Future[RecordedEvent] | None = None
    word: asyncio.Future[TokenEvent] | None = None
    try:
        while True:
            event = event or asyncio.ensure_future(anext(events))
            word = word or asyncio.ensure_future(anext(words))
            await asyncio.wait((event, word), return_when=asyncio.FIRST_COMPLETED)
            if word.done():
                said, word = word, None
                yield said.result()
            if event.done():
                happened, event = event, None
                yield happened.result()
    finally:
        await _cancel_futures(event, word)


async def _cancel_futures(*futures: asyncio.Future[Any] | None) -> None:
    begun = [future for future in futures if future is not None]
    for future in begun:
        future.cancel()
    await asyncio.gather(*begun, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class UndecodableItem:
    """Stored bytes that cannot be decoded; yielded so that they do not stop other consumers."""

    raw: RawEvent
    detail: str


ConsumerItem = RecordedEvent | TurnTokenEvent | UndecodableItem

ConsumerItems = AsyncGenerator[tuple[StreamPosition, ConsumerItem]]


class EventSubscription:
    """Yields items, and has the cursor after the last handled one."""

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
        self._handled = self._yielded = start

    @property
    def cursor(self) -> str:
        """Where to resume: after the last handled item."""
        return self._cursors.format_cursor(self._handled)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerItem:
        while True:
            self._handled = self._yielded
            self._yielded, item = await anext(self._items)
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
        on = build_client(connection)
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
        fix = "name the session whose replies are to be heard"
        raise Refused("no-session", "tokens are of one session", field="session", fix=fix)


async def _open_tenant_stream(
    on: JetStreamClient, tenant: str, after: str | None
) -> tuple[StreamPosition, ConsumerItems, CursorCodec]:
    stream = find_session_stream(tenant)
    facts = await fetch_stream_info(on.connection, stream)
    cursors = build_cursor_codec(LogIdentity(stream, facts.created), tenant, None)
    start = cursors.parse_tenant_cursor(after)
    if after is not None and start.stream_sequence > facts.last_sequence:
        raise build_cursor_refusal("future-cursor", after, "is ahead of the log")
    return start, _stream_tenant(on.log, tenant, start), cursors


async def _stream_tenant(log: EventLog, tenant: str, start: TenantPosition) -> ConsumerItems:
    async with aclosing(log.stream_raw_events(tenant, start.stream_sequence, live=True)) as bulks:
        async for bulk in bulks:
            for raw in bulk:
                yield TenantPosition(raw.stream_sequence), _decode_raw_event(raw)


def _decode_raw_event(raw: RawEvent) -> RecordedEvent | UndecodableItem:
    try:
        return decode_event(raw.stored, raw.stream_sequence)
    except Corrupt as junk:
        return UndecodableItem(raw, str(junk))


async def _open_session_stream(
    on: JetStreamClient, tenant: str, session: str, after: str | None, *, tokens: bool
) -> tuple[StreamPosition, ConsumerItems, CursorCodec]:
    cursors = build_cursor_codec(await on.log.get_identity(tenant), tenant, session)
    start = cursors.parse_session_cursor(after)
    head = await on.log.read_last_event(tenant, session, leader=True)
    upto = head.sequence if head else 0
    if after is not None and start.sequence > upto:
        raise build_cursor_refusal("future-cursor", after, "is ahead of the session")
    told = stream_session(on.log, on.tokens, tenant, session, start, upto if tokens else None)
    return start, told, cursors
