"""The events of a tenant as they come, read once for all who watch them.

A watcher first reads for itself what it lacks. Once it has reached the end of the log it follows
the tail, a reading that the process shares: each event is fetched, decoded and formatted once,
however many watch. A watcher that does not keep up is no longer fed, reads for itself what it
missed, and follows again; so nothing is lost or repeated, and nobody waits for a slow reader.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.async_tasks import cancel_tasks, stream_watch
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.registry import format_event_name
from turnlog.events.store.ports import EventLog, RawEvent, TokenStream, TurnTokenEvent
from turnlog.events.stray_messages import decode_unless_stray
from turnlog.projections.session_views.withheld_events import RedactedTurns
from turnlog.services.use_cases.record.streamed_pieces import build_piece

WAITING_BYTES: Final = 4 * 1024 * 1024
"""Bytes that may wait for a watcher."""

GATHER_SECONDS: Final = 0.000_4
"""Seconds for each watcher that events are gathered in before they are passed on together.

To pass on what came takes 0.04 ms for each, however much it is, so watchers take at most a tenth of
the loop that turns need, and rarely between two steps of a turn.
"""

MAX_GATHER_SECONDS: Final = 0.4

RETRY_SECONDS: Final = 0.5
"""Seconds between two tries to read what a watcher lacks, or to hear of tokens."""


@dataclass(eq=False, slots=True, kw_only=True)
class StreamedEvent:
    """What is sent of an event, or of a reply."""

    name: str
    data: bytes
    cursor: str
    """The position to resume from; empty for what is sent of a reply to those who watch all."""
    session: str = ""
    """The session that it is of, where that is known."""
    frame: bytes | None = None
    """How it is sent, once it was encoded."""

    @property
    def size(self) -> int:
        """Number of its bytes."""
        return len(self.data)


@dataclass(eq=False, slots=True, kw_only=True)
class TailEvent:
    """An event as it came, and what was made of it for all who get it."""

    raw: RawEvent
    _event: RecordedEvent | Corrupt | None = None
    _is_decoded: bool = False
    _stored_form: StreamedEvent | None = None
    _reader_form: StreamedEvent | None = None
    _made_by: tuple[RedactedTurns, int] | None = None
    """The redactions that the form for readers was made by, and how many of the session."""

    @property
    def position(self) -> int:
        """Its stream sequence."""
        return self.raw.stream_sequence

    @property
    def size(self) -> int:
        """Number of its bytes."""
        return len(self.raw.stored)

    def decode(self) -> RecordedEvent | None:
        """Return the event; None for a message that is none. Raises `Corrupt`."""
        if not self._is_decoded:
            raw = self.raw
            try:
                self._event = decode_unless_stray(raw.subject, raw.stored, raw.stream_sequence)
            except Corrupt as corrupt:
                self._event = corrupt
            self._is_decoded = True
        if isinstance(self._event, Corrupt):
            raise self._event
        return self._event

    def format_for(self, redacted: RedactedTurns | None) -> StreamedEvent | None:
        """Return the event as a reader gets it; without redactions as it is stored."""
        event = self.decode()
        if event is None:
            return None
        if redacted is None:
            if self._stored_form is None:
                self._stored_form = self._create_form(event, event.opened_bytes)
            return self._stored_form
        redacted.apply_event(event)
        made_by = (redacted, redacted.count_redactions(event.session))
        if self._reader_form is None or self._made_by != made_by:
            self._reader_form = self._create_form(event, redacted.format_for_reader(event))
            self._made_by = made_by
        return self._reader_form

    def _create_form(self, event: RecordedEvent, data: bytes) -> StreamedEvent:
        name = format_event_name(event.envelope.type)
        return StreamedEvent(name=name, data=data, cursor=str(self.position), session=event.session)


TailItem = TailEvent | StreamedEvent
"""An event, or a piece of a reply for those who ask for tokens."""


@dataclass(eq=False, kw_only=True)
class _Follower:
    """What came for a watcher that it has not taken yet."""

    has_tokens: bool
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: deque[Sequence[TailItem]] = field(default_factory=deque[Sequence[TailItem]])
    free_bytes: int = WAITING_BYTES
    has_missed: bool = False

    def add_items(self, items: Sequence[TailItem]) -> None:
        """Add what came, unless that is too much for a watcher that does not keep up."""
        if self.has_missed:
            return
        self.free_bytes -= sum(each.size for each in items)
        if self.free_bytes < 0:
            self.waiting.clear()
            self.has_missed = True
        else:
            self.waiting.append(items)
        self.arrived.set()

    def take_items(self, position: int) -> Sequence[TailItem]:
        """Return all that waits behind a stream sequence, with the tokens that came meanwhile."""
        taken = [
            item
            for items in self.waiting
            for item in items
            if isinstance(item, StreamedEvent) or item.position > position
        ]
        self.waiting.clear()
        self.free_bytes = WAITING_BYTES
        self.arrived.clear()
        return taken


@dataclass(eq=False, kw_only=True)
class TenantTail:
    """The reading that the watchers of a tenant share, for as long as there are some."""

    position: int
    """The stream sequence of the last event that was passed on, or after which it began."""
    followers: list[_Follower] = field(default_factory=list[_Follower])
    gathered: list[TailItem] = field(default_factory=list[TailItem])
    """What came and was not passed on yet."""
    failure: Exception | None = None
    """Why nothing comes any more."""
    readings: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    """That of events, and that of tokens once somebody asks for them."""

    async def run(self, log: EventLog, tenant: str) -> None:
        """Pass on what comes, until the log cannot be read on."""
        try:
            async with aclosing(log.stream_raw_events(tenant, self.position, live=True)) as bulks:
                async for bulk in bulks:
                    self._gather([TailEvent(raw=raw) for raw in bulk])
        except Exception as failure:  # noqa: BLE001 - whatever it is, each watcher has to know
            self._pass_on()
            self.failure = failure
            for each in self.followers:
                each.arrived.set()

    async def read_tokens(self, tokens: TokenStream, tenant: str) -> None:
        """Pass on the replies that are generated, to those who ask for them."""
        wake = asyncio.Event()
        while True:
            with suppress(Unavailable):
                async with (
                    tokens.open_tenant_watch(tenant, wake) as watch,
                    aclosing(stream_watch(wake, watch)) as published,
                ):
                    async for session, token in published:
                        self._gather_piece(session, token)
            await asyncio.sleep(RETRY_SECONDS)

    def _gather_piece(self, session: str, token: TurnTokenEvent) -> None:
        piece = build_piece(session, token)
        if piece is not None:
            data = piece.model_dump_json().encode()
            self._gather([StreamedEvent(name=piece.event, data=data, cursor="", session=session)])

    def _gather(self, items: Sequence[TailItem]) -> None:
        if not self.gathered:
            seconds = min(MAX_GATHER_SECONDS, GATHER_SECONDS * len(self.followers))
            asyncio.get_running_loop().call_later(seconds, self._pass_on)
        self.gathered += items

    def _pass_on(self) -> None:
        items, self.gathered = self.gathered, []
        events = [each for each in items if isinstance(each, TailEvent)]
        if events:
            self.position = events[-1].position
        for each in self.followers:
            if mine := items if each.has_tokens else events:
                each.add_items(mine)


def _check_failure(tail: TenantTail) -> None:
    if tail.failure is not None:
        raise tail.failure


@dataclass(frozen=True, slots=True)
class TenantTails:
    """The tails of the tenants that are watched."""

    log: EventLog
    tokens: TokenStream
    _tails: dict[str, TenantTail] = field(default_factory=dict[str, TenantTail])

    async def stream_events(
        self, tenant: str, position: int, *, has_tokens: bool = False
    ) -> AsyncGenerator[Sequence[TailItem]]:
        """Yield everything after a stream sequence, past and then live, as `stream_raw_events`.

        With `has_tokens` also what is generated of replies from then on.
        """
        while True:
            async with aclosing(self._read_past(tenant, position)) as past:
                async for events in past:
                    position = events[-1].position
                    yield events
            async with self._open_follower(tenant, position, has_tokens=has_tokens) as (
                tail,
                follower,
            ):
                began = tail.position
                # What came since, before this one followed. After an election a log may seem
                # shorter for a moment than it is.
                while position < began:
                    async with aclosing(self._read_past(tenant, position)) as past:
                        async for events in past:
                            position = events[-1].position
                            yield events
                    if position < began:
                        await asyncio.sleep(RETRY_SECONDS)
                        _check_failure(tail)
                while not follower.has_missed:
                    if tail.failure is None:
                        await follower.arrived.wait()
                    if fresh := follower.take_items(position):
                        events = [each for each in fresh if isinstance(each, TailEvent)]
                        position = events[-1].position if events else position
                        yield fresh
                    else:
                        _check_failure(tail)
                _check_failure(tail)

    async def _read_past(self, tenant: str, position: int) -> AsyncGenerator[Sequence[TailEvent]]:
        """Yield what there is after a stream sequence, however long the log is out of reach."""
        while True:
            try:
                raws = self.log.stream_raw_events(tenant, position, live=False)
                async with aclosing(raws) as bulks:
                    async for bulk in bulks:
                        position = bulk[-1].stream_sequence
                        yield [TailEvent(raw=raw) for raw in bulk]
            except Unavailable:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    @asynccontextmanager
    async def _open_follower(
        self, tenant: str, position: int, *, has_tokens: bool
    ) -> AsyncGenerator[tuple[TenantTail, _Follower]]:
        tail = self._tails.get(tenant)
        if tail is None or tail.failure is not None:
            tail = self._tails[tenant] = TenantTail(position=position)
            tail.readings.append(asyncio.create_task(tail.run(self.log, tenant)))
        if has_tokens and len(tail.readings) == 1:
            tail.readings.append(asyncio.create_task(tail.read_tokens(self.tokens, tenant)))
        follower = _Follower(has_tokens=has_tokens)
        tail.followers.append(follower)
        try:
            yield tail, follower
        finally:
            tail.followers.remove(follower)
            if not tail.followers:
                if self._tails.get(tenant) is tail:
                    del self._tails[tenant]
                await cancel_tasks(*tail.readings)
