"""The typed consumer: events of a session or a tenant, stored then live, resumable by cursor.

It only reads and leaves no state on the server. The cursor is that of the latest item. A consumer
that stores it once it has handled the item misses nothing after a crash and sees nothing twice but
an item that it handled without storing the cursor.

A cursor is a short text. It identifies the log and the session or tenant, so that a cursor from
elsewhere, or from a log that was lost and created again, is refused.

`session_stream` says how the tokens of a session's replies come between its events.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Self

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.jetstream.jetstream_client import (
    JetStreamClient,
    add_archive,
    build_client,
    open_keys,
)
from turnlog.events.jetstream.js_api import fetch_stream_info
from turnlog.events.jetstream.nats_connection import open_connection
from turnlog.events.log_token_join import (
    ReplyPosition,
    parse_cursor_number,
)
from turnlog.events.registry import EVENT_NAMES, format_event_name
from turnlog.events.seals.keyrings import SealKeyring
from turnlog.events.session_stream import SessionPosition, stream_session
from turnlog.events.store.ports import EventLog, LogIdentity, RawEvent, TurnTokenEvent
from turnlog.events.stray_messages import decode_unless_stray, describe_stray
from turnlog.events.subjects import SESSION_HISTORY


@dataclass(frozen=True, slots=True)
class TenantPosition:
    """A position among all events of a tenant."""

    stream_sequence: int = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in the cursor."""
        return (self.stream_sequence,)


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
    keyring: SealKeyring | None = None,
    archive: Path | None = None,
) -> AsyncGenerator[EventSubscription]:
    """Yield a stream of the events of a session or a whole tenant, from a cursor on, forever.

    The events of sealed sessions need the keyring of the installation, and those of archived ones
    the folder of its archive.

    `types` are names such as `turn-completed`. With `tokens`, a session's reply is streamed before
    the event that records it. Refuses unknown names and cursors of another stream.
    """
    _check_filter(types, session, tokens=tokens)
    async with (
        open_connection(url, name="turnlog-consumer") as connection,
        open_keys(connection, keyring) as opened,
        add_archive(opened, archive) as reading,
    ):
        on = build_client(reading, tenant, session)
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
