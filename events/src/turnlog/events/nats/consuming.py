from __future__ import annotations

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Self

from turnlog.events.codec import read
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.ids import stream_of
from turnlog.events.kinds import NAMES, name_of
from turnlog.events.log.ports import Identity, Log, Raw
from turnlog.events.nats.connection import connected
from turnlog.events.nats.cursor import Cursors, InTenant, Place, cursors_of, refused
from turnlog.events.nats.opening import JetStream, jetstream_on
from turnlog.events.nats.speaking import Spoken, session_told
from turnlog.events.nats.streams import facts_of


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stored bytes that cannot be decoded; yielded so that they do not stop other consumers."""

    raw: Raw
    detail: str


Item = Recorded | Spoken | Unreadable
Items = AsyncGenerator[tuple[Place, Item]]


class EventStream:
    """Yields items, and has the cursor after the last handled one."""

    def __init__(
        self, start: Place, items: Items, cursors: Cursors, types: Collection[str] | None
    ) -> None:
        self._items = items
        self._cursors = cursors
        self._types = types
        self._handled = self._given = start

    @property
    def cursor(self) -> str:
        """Where to resume: after the last handled item."""
        return self._cursors.spell(self._handled)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while True:
            self._handled = self._given
            self._given, item = await anext(self._items)
            if self._wants(item):
                return item

    def _wants(self, item: Item) -> bool:
        if self._types is None or isinstance(item, Spoken):
            return True
        return isinstance(item, Recorded) and name_of(item.envelope.type) in self._types


@asynccontextmanager
async def subscribe(
    url: str,
    *,
    tenant: str = "default",
    session: str | None = None,
    types: Collection[str] | None = None,
    tokens: bool = False,
    after: str | None = None,
) -> AsyncGenerator[EventStream]:
    """Yield a stream of the events of a session or a whole tenant, from a cursor on, forever.

    `types` are names such as `turn-completed`. With `tokens`, a session's reply is streamed before
    the event that records it. Refuses unknown names and cursors of another stream.
    """
    _check(types, session, tokens=tokens)
    async with connected(url, name="turnlog-consumer") as connection:
        on = jetstream_on(connection)
        if session is None:
            start, items, cursors = await _of_tenant(on, tenant, after)
        else:
            start, items, cursors = await _of_session(on, tenant, session, after, tokens=tokens)
        async with aclosing(items):
            yield EventStream(start, items, cursors, types)


def _check(types: Collection[str] | None, session: str | None, *, tokens: bool) -> None:
    if unknown := sorted(set(types or ()) - set(NAMES)):
        fix = f"use some of {', '.join(NAMES)}"
        raise Refused("unknown-type", f"no event is named {unknown[0]!r}", field="types", fix=fix)
    if tokens and session is None:
        fix = "name the session whose replies are to be heard"
        raise Refused("no-session", "tokens are of one session", field="session", fix=fix)


async def _of_tenant(on: JetStream, tenant: str, after: str | None) -> tuple[Place, Items, Cursors]:
    stream = stream_of(tenant)
    facts = await facts_of(on.connection, stream)
    cursors = cursors_of(Identity(stream, facts.created), tenant, None)
    start = cursors.in_tenant(after)
    if after is not None and start.stream_sequence > facts.last:
        raise refused("future-cursor", after, "is ahead of the log")
    return start, _tenant_items(on.log, tenant, start), cursors


async def _tenant_items(log: Log, tenant: str, start: InTenant) -> Items:
    async with aclosing(log.follow(tenant, start.stream_sequence, live=True)) as bulks:
        async for bulk in bulks:
            for raw in bulk:
                yield InTenant(raw.stream_sequence), _decoded(raw)


def _decoded(raw: Raw) -> Recorded | Unreadable:
    try:
        return read(raw.stored, raw.stream_sequence)
    except Corrupt as junk:
        return Unreadable(raw, str(junk))


async def _of_session(
    on: JetStream, tenant: str, session: str, after: str | None, *, tokens: bool
) -> tuple[Place, Items, Cursors]:
    cursors = cursors_of(await on.log.identity(tenant), tenant, session)
    start = cursors.in_session(after)
    head = await on.log.last(tenant, session, leader=True)
    upto = head.sequence if head else 0
    if after is not None and start.sequence > upto:
        raise refused("future-cursor", after, "is ahead of the session")
    told = session_told(on.log, on.tokens, tenant, session, start, upto if tokens else None)
    return start, told, cursors
