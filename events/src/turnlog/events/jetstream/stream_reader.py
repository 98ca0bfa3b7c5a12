"""Reads a whole stream in bulk and in order, and proves that nothing in it is missing.

This is an ordered consumer of our own. The consumer of nats-py answers flow control before its
reader has read, and silently loses messages once its buffer is full. This one answers when the
reader reaches the flow control message, so a slow reader slows the server down.

The server numbers what it pushes. A missing number, a missed heartbeat, a status or a reconnect
ends one delivery; nothing after a gap is handed on. Reading then starts again at the last event
yielded. If that event is read again it is dropped, and if another event is there, the stream was
rolled back and reading ends with `Corrupt`.

The streams read here never delete a message, so their sequences have no gap. The server passes over
a message that it cannot read, and goes on counting it as pending: no delivery tells of it, and a
reader that waits for the last message waits forever. So every sequence is accounted for, also those
that the server only says it has passed. A gap ends the delivery; if the leader has no message there
either, it is a hole, and reading ends with `StreamHole` after everything before it was yielded. A
gap in a tenant's part could be another tenant's event, which is why the whole stream is read. What
was moved into the archive is read there, at its place between the others.
"""

from __future__ import annotations

import asyncio
import json
from bisect import bisect_right
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

from nats import errors
from nats.aio.client import Client
from pydantic import BaseModel, JsonValue

from turnlog.events.errors import Corrupt, StreamHole, Unavailable
from turnlog.events.jetstream.direct_get import (
    get_message,
    get_next_message,
)
from turnlog.events.jetstream.js_api import StreamInfo, fetch_stream_info, request_json
from turnlog.events.jetstream.nats_connection import NatsConnection, wait_backoff
from turnlog.events.jetstream.subscriptions import (
    RawFrame,
    is_status_message,
    parse_headers,
    subscribe_raw,
)
from turnlog.events.store.ports import RawEvent

HEARTBEAT_SECONDS: Final = 2
"""Seconds between heartbeats of an idle consumer; one may be missed."""

INACTIVE_SECONDS: Final = 30
"""Seconds without a reader after which the server deletes the consumer."""

NANOSECONDS: Final = 10**9
"""Durations in server configurations are nanoseconds."""


@dataclass(frozen=True, slots=True)
class DeliveredBatch:
    """The messages that had arrived when the batch was taken."""

    events: list[RawEvent]
    is_drained: bool
    """Whether the server had no more messages."""
    passed: int = 0
    """Stream sequence up to which the server says that it has read; 0 if it did not say."""


async def stream_deliveries(
    connection: NatsConnection,
    stream: str,
    subjects: str,
    after: int,
    *,
    headers_only: bool = False,
) -> AsyncGenerator[DeliveredBatch]:
    """Yield everything under `subjects` after a stream sequence, then what arrives live.

    With `headers_only` they come without their payloads. Raises `Unavailable` at the first problem;
    see the module.
    """
    inflow = _DeliveryBuffer(nc=connection.nc)
    inbox = connection.nc.new_inbox()
    try:
        with connection.watch_reconnects(inflow.mark_ended):
            async with subscribe_raw(connection.nc, inbox, inflow.add_frame):
                config = _build_consumer_config(subjects, inbox, after)
                config["headers_only"] = headers_only
                request = json.dumps({"stream_name": stream, "config": config}).encode()
                # With the name and the filter in its subject, so that a server can deny a login
                # other consumers, and the one that the workers share.
                create = f"$JS.API.CONSUMER.CREATE.{stream}.{config['name']}.{subjects}"
                made = await request_json(connection, create, _ConsumerCreated, request)
                yield DeliveredBatch([], is_drained=made.num_pending == 0)
                while True:
                    yield await inflow.take_batch()
    except (errors.Error, TimeoutError) as error:
        raise Unavailable("nats", f"delivery of {stream}: {type(error).__name__}") from error


class _ConsumerCreated(BaseModel):
    num_pending: int = 0


def _build_consumer_config(subjects: str, inbox: str, after: int) -> dict[str, JsonValue]:
    return {
        "name": inbox.rpartition(".")[2],
        "filter_subject": subjects,
        "deliver_subject": inbox,
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": after + 1,
        "ack_policy": "none",
        "max_deliver": 1,
        "flow_control": True,
        "idle_heartbeat": HEARTBEAT_SECONDS * NANOSECONDS,
        "inactive_threshold": INACTIVE_SECONDS * NANOSECONDS,
        "mem_storage": True,
        "num_replicas": 1,
    }


@dataclass(kw_only=True)
class _DeliveryBuffer:
    nc: Client
    delivered: int = 0
    waiting: list[RawFrame] = field(default_factory=list[RawFrame])
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False

    def mark_ended(self) -> None:
        """Stop the delivery: further messages come over another connection."""
        self.ended = True
        self.arrived.set()

    def add_frame(self, frame: RawFrame) -> None:
        self.waiting.append(frame)
        self.arrived.set()

    async def take_batch(self) -> DeliveredBatch:
        async with asyncio.timeout(HEARTBEAT_SECONDS * 2):
            await self.arrived.wait()
        if self.ended:
            raise Unavailable("nats", "there was a reconnect")
        self.arrived.clear()
        frames, self.waiting = self.waiting, []
        raws: list[RawEvent] = []
        drained, passed = False, 0
        for subject, reply, headers, payload in frames:
            if is_status_message(headers):
                passed = await self._handle_status(reply.decode(), parse_headers(headers))
            else:
                place, number, pending = _parse_reply_subject(reply)
                self._check_delivery_number(number - 1)
                self.delivered = number
                raws.append(RawEvent(subject.decode(), place, payload))
                drained = pending == 0
        return DeliveredBatch(raws, drained, passed)

    async def _handle_status(self, reply: str, headers: Mapping[str, str]) -> int:
        """Answer a status message; return how far the server has read, or 0."""
        if headers["Status"] != "100":
            raise Unavailable("nats", f"consumer ended: {headers}")
        if reply:
            await self.nc.publish(reply)
        if stalled := headers.get("Nats-Consumer-Stalled"):
            await self.nc.publish(stalled)
        if (number := headers.get("Nats-Last-Consumer")) is not None:
            self._check_delivery_number(int(number))
        return int(headers.get("Nats-Last-Stream", 0))

    def _check_delivery_number(self, number: int) -> None:
        if number != self.delivered:
            raise Unavailable("nats", f"delivery {number} does not follow {self.delivered}")


def _parse_reply_subject(reply: bytes) -> tuple[int, int, int]:
    """Return stream sequence, delivery number and pending count from the reply subject."""
    fields = reply.split(b".")
    return int(fields[5]), int(fields[6]), int(fields[8])


ARCHIVED_PAGE: Final = 500
"""Messages of the archive that are read at once."""

MAX_FAILURES: Final = 8
"""Maximum consecutive failures, for restarting a bounded read and for a stream that seems too
short.
"""


async def stream_raw_events(
    connection: NatsConnection, stream: str, subjects: str, after: int, *, live: bool
) -> AsyncGenerator[Sequence[RawEvent]]:
    """Yield events after `after`, up to the one that was last at the start, or forever if `live`.

    `subjects` selects everything in the stream. Survives server restarts. Raises `StreamHole` where
    the stream has no message, `Corrupt` if it is no longer the same stream, and `Unavailable` if a
    bounded read cannot continue.
    """
    began: StreamInfo | None = None
    last_yielded: RawEvent | None = None
    failures = 0
    while True:
        try:
            began = await _check_same_stream(connection, stream, began, last_yielded)
            last = began.last_sequence
            reading = _StreamRead(
                connection=connection,
                stream=stream,
                subjects=subjects,
                last=last,
                end=None if live else last,
            )
            async with aclosing(reading.stream_from(last_yielded or after)) as bulks:
                async for bulk in bulks:
                    found = await attach_keys(connection, bulk)
                    last_yielded, failures = bulk[-1], 0
                    yield found
                return
        except Unavailable:
            failures += 1
            if not live and failures > MAX_FAILURES:
                raise
            await wait_backoff(failures)


async def attach_keys(connection: NatsConnection, bulk: Sequence[RawEvent]) -> Sequence[RawEvent]:
    """Return events with the keys of those that are sealed."""
    if connection.keys is None:
        return bulk
    stored = await connection.keys.attach_keys(raw.stored for raw in bulk)
    return [
        raw if payload is raw.stored else replace(raw, stored=payload)
        for raw, payload in zip(bulk, stored, strict=True)
    ]


async def _check_same_stream(
    connection: NatsConnection, stream: str, began: StreamInfo | None, last_yielded: RawEvent | None
) -> StreamInfo:
    """Return the stream's information; raises `Corrupt` if it is another stream by now."""
    failures = 0
    while True:
        facts = await fetch_stream_info(connection, stream)
        if began is None:
            return facts
        if began.created != facts.created:
            raise Corrupt(f"stream {stream}", f"was recreated at {facts.created} while it was read")
        if last_yielded is None or last_yielded.stream_sequence <= facts.last_sequence:
            return began
        if failures == MAX_FAILURES:
            reached = (
                f"it ends at {facts.last_sequence} but had reached {last_yielded.stream_sequence}"
            )
            raise Corrupt(f"stream {stream}", f"was rolled back while it was read: {reached}")
        # Right after an election a leader may not know its own last sequence.
        failures += 1
        await wait_backoff(failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class _StreamRead:
    """One delivery of a stream, in which every sequence is accounted for."""

    connection: NatsConnection
    stream: str
    subjects: str
    last: int
    """The last stream sequence when reading began."""
    end: int | None
    """The stream sequence to read up to; None to follow the stream."""

    async def stream_from(self, after: RawEvent | int) -> AsyncGenerator[Sequence[RawEvent]]:
        known = None if isinstance(after, int) else after
        place = after if isinstance(after, int) else after.stream_sequence
        if self.end is not None and place >= self.end:
            return
        place -= known is not None
        async with aclosing(
            stream_deliveries(self.connection, self.stream, self.subjects, place)
        ) as batches:
            async for batch in batches:
                passed = self._find_passed(batch)
                upto = max(passed, self.last) if batch.is_drained else passed
                async for events in self._add_archived(batch.events, place, upto):
                    raws = _take_consecutive(events, place, self.end)
                    if raws:
                        place = raws[-1].stream_sequence
                        fresh, known = _drop_known_event(raws, known) if known else raws, None
                        if fresh:
                            yield fresh
                if self.end is not None and place >= self.end:
                    return
                await self._check_gap(place, passed)

    async def _add_archived(
        self, events: list[RawEvent], place: int, upto: int
    ) -> AsyncGenerator[list[RawEvent]]:
        """Yield what was delivered, and between it what was moved into the archive."""
        archive = self.connection.find_archive(self.stream)
        while archive and (
            archived := await archive.list_messages(
                self.subjects, place + 1, ARCHIVED_PAGE, upto=upto
            )
        ):
            place = archived[-1].stream_sequence
            count = bisect_right(events, place, key=_get_stream_sequence)
            yield sorted([*events[:count], *archived], key=_get_stream_sequence)
            events = events[count:]
        yield events

    def _find_passed(self, batch: DeliveredBatch) -> int:
        """Return the stream sequence that a reader of the whole stream must have reached."""
        delivered = batch.events[-1].stream_sequence if batch.events else 0
        if self.end is None:
            return max(delivered, batch.passed)
        return self.end if batch.is_drained else min(self.end, max(delivered, batch.passed))

    async def _check_gap(self, place: int, passed: int) -> None:
        """Raise `StreamHole` if the leader has no message after `place` either."""
        if place >= passed:
            return
        first = place + 1
        if await get_message(self.connection, self.stream, first, leader=True) is not None:
            detail = f"sequence {first} of {self.stream} was not delivered, but the leader has it"
            raise Unavailable("nats", detail)
        later = await get_next_message(
            self.connection, self.stream, self.subjects, first, leader=True
        )
        last = later.stream_sequence - 1 if later else passed
        raise StreamHole(self.stream, first, max(first, last))


def _get_stream_sequence(raw: RawEvent) -> int:
    return raw.stream_sequence


def _take_consecutive(raws: list[RawEvent], place: int, end: int | None) -> list[RawEvent]:
    """Return the events that follow `place` without a gap, up to `end`."""
    if raws and end is not None and raws[-1].stream_sequence > end:
        raws = [raw for raw in raws if raw.stream_sequence <= end]
    if not raws or raws[-1].stream_sequence == place + len(raws):
        return raws
    return [raw for at, raw in enumerate(raws, place + 1) if raw.stream_sequence == at]


def _drop_known_event(raws: list[RawEvent], known: RawEvent) -> list[RawEvent]:
    if raws[0] != known:
        place = f"stream sequence {known.stream_sequence}"
        raise Corrupt(place, "was rolled back while it was read: another event lies there")
    return raws[1:]
