from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Self

from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.ids import find_session_stream
from turnlog.events.kinds import EVENT_NAMES, format_event_name
from turnlog.events.log.ports import LogIdentity, EventLog, RawEvent
from turnlog.events.nats.connection import open_connection
from turnlog.events.nats.cursor import CursorCodec, TenantPosition, StreamPosition, build_cursor_codec, build_cursor_refusal
from turnlog.events.nats.opening import JetStreamClient, build_client
from turnlog.events.nats.speaking import TurnTokenEvent, stream_session
from turnlog.events.nats.streams import fetch_stream_info


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
        self, start: StreamPosition, items: ConsumerItems, cursors: CursorCodec, types: Collection[str] | None
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
        return isinstance(item, RecordedEvent) and format_event_name(item.envelope.type) in self._types


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
            start, items, cursors = await _open_session_stream(on, tenant, session, after, tokens=tokens)
        async with aclosing(items):
            yield EventSubscription(start, items, cursors, types)


def _check_filter(types: Collection[str] | None, session: str | None, *, tokens: bool) -> None:
    if unknown := sorted(set(types or ()) - set(EVENT_NAMES)):
        fix = f"use some of {', '.join(EVENT_NAMES)}"
        raise Refused("unknown-type", f"no event is named {unknown[0]!r}", field="types", fix=fix)
    if tokens and session is None:
        fix = "name the session whose replies are to be heard"
        raise Refused("no-session", "tokens are of one session", field="session", fix=fix)


async def _open_tenant_stream(on: JetStreamClient, tenant: str, after: str | None) -> tuple[StreamPosition, ConsumerItems, CursorCodec]:
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
