"""Appending a batch by compare-and-set, until its outcome is known.

A single message is one request. Several messages are an atomic batch: all but the last are sent
without waiting, and the last commits or fails them together, so a batch is one round trip too.

Any answer other than an acknowledgement is checked at the stream's leader. Only then is the outcome
reported, or are the very same bytes sent again. A batch is therefore stored once, however often it
is sent, and a conflict is always proven.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from nats import errors
from nats.js.api import Header

from turnlog.events.codec import MAX_EVENT_BYTES, EventBatch
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import TooLarge, Unavailable
from turnlog.events.jetstream.direct_get import (
    StoredMessage,
    get_message,
)
from turnlog.events.jetstream.history_end import HistoryEnd, HistoryReader
from turnlog.events.jetstream.js_api import (
    IN_FLIGHT_CODE,
    LAST_DIFFERS_CODE,
    JsApiError,
    PublishAck,
    request_json,
)
from turnlog.events.jetstream.nats_connection import (
    NatsConnection,
    RequestNotSent,
    RequestUnanswered,
    wait_backoff,
)
from turnlog.events.jetstream.stream_setup import check_message_size
from turnlog.events.store.ports import (
    AppendOutcome,
    BatchAlreadyStored,
    BatchAppended,
    BatchConflict,
    LogUnreachable,
)

GUARD_SUBJECT_HEADER: Final = "Nats-Expected-Last-Subject-Sequence-Subject"

OVERSIZE_CODE: Final = 10054

NOT_STORED_CODES: Final = frozenset({LAST_DIFFERS_CODE, IN_FLIGHT_CODE, 10176})
"""Codes of a stream that did not store the batch now: its place is taken, possibly by this very
batch, or part of the batch did not arrive.
"""

NO_SPACE_CODES: Final = frozenset({10002, 10023, 10028, 10047, 10077})
"""Codes of a server that has no space and stored nothing."""


@dataclass(frozen=True, slots=True)
class PublishAccepted:
    """The batch is stored; `last_sequence` is the stream sequence of its last message."""

    last_sequence: int


@dataclass(frozen=True, slots=True)
class PublishContested:
    """The publish stored nothing: the sequence is taken, by this batch or by another one."""

    detail: str


@dataclass(frozen=True, slots=True)
class StreamFull:
    """The server has no space; the batch is not stored."""

    detail: str


@dataclass(frozen=True, slots=True)
class PublishNotSent:
    """No server received the batch; it is not stored."""

    detail: str


@dataclass(frozen=True, slots=True)
class PublishUnconfirmed:
    """The batch may be stored, or may still be."""

    detail: str


PublishOutcome = (
    PublishAccepted | PublishContested | StreamFull | PublishNotSent | PublishUnconfirmed
)


async def publish_batch(
    connection: NatsConnection, batch: EventBatch, newest: int | None = None
) -> PublishOutcome:
    """Send a batch once; raises `TooLarge` if this server would never accept it.

    `newest` is the stream sequence of the last message under its subjects, where that is a stray
    one behind the event that the batch follows.
    """
    largest = max(len(message.payload) for message in batch.messages)
    check_message_size(connection, "event", largest)
    if not connection.nc.is_connected:
        return PublishNotSent("not connected")
    expected = _find_expected_place(connection, batch, newest)
    if expected is None:
        return PublishContested("the archive has a later event of the history")
    try:
        ack = await _send_batch(connection, batch, expected)
    except JsApiError as denied:
        return _classify_denial(denied, largest)
    except RequestNotSent as absent:
        return PublishNotSent(absent.detail)
    except (RequestUnanswered, errors.Error) as silent:
        return PublishUnconfirmed(str(silent))
    return PublishAccepted(ack.seq)


def _find_expected_place(
    connection: NatsConnection, batch: EventBatch, newest: int | None
) -> int | None:
    """Return the stream sequence that is to be the last one under the batch's subjects.

    The stream has none of a history that is archived up to its end: None where a later event than
    the one that the batch follows is archived.
    """
    if newest is None:
        newest = batch.after.stream_sequence if batch.after else 0
    archive = connection.archive
    archived = archive.find_last_position(batch.subjects) if archive else 0
    if newest < archived:
        return None
    return newest if newest > archived else 0


def _classify_denial(denied: JsApiError, largest: int) -> PublishOutcome:
    if denied.code == OVERSIZE_CODE:
        raise TooLarge("event", largest, MAX_EVENT_BYTES)
    if denied.code in NO_SPACE_CODES:
        return StreamFull(denied.detail)
    return (
        PublishContested(denied.detail)
        if denied.code in NOT_STORED_CODES
        else PublishUnconfirmed(denied.detail)
    )


async def _send_batch(connection: NatsConnection, batch: EventBatch, expected: int) -> PublishAck:
    headers_by_message = _build_headers(batch, expected)
    *others, (last, commit) = zip(batch.messages, headers_by_message, strict=True)
    for message, headers in others:
        await connection.nc.publish(message.subject, message.payload, headers=headers)
    return await request_json(
        connection=connection,
        subject=last.subject,
        reply_type=PublishAck,
        payload=last.payload,
        headers=commit,
    )


def _build_headers(batch: EventBatch, newest: int) -> Iterator[dict[str, str]]:
    guard = {
        Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(newest),
        GUARD_SUBJECT_HEADER: batch.subjects,
    }
    count = len(batch.messages)
    name = uuid4().hex  # Unique per try: a batch that was interrupted may still be open.
    for number in range(1, count + 1):
        headers = dict(guard) if number == 1 else {}
        if count > 1:
            headers[Header.BATCH_ID.value] = name
            headers[Header.BATCH_SEQUENCE.value] = str(number)
        if number == count > 1:
            headers[Header.BATCH_COMMIT.value] = "1"
        yield headers


@dataclass(frozen=True, slots=True)
class PlaceFree:
    """The batch is not stored yet, and no event is in its place."""

    newest: int | None = None
    """Stream sequence of the last message under its subjects, where that is a stray one."""


LookupOutcome = BatchAlreadyStored | BatchConflict | PlaceFree

AppendGuard = Callable[[EventBatch], Awaitable[None]]
"""Awaited before each try.

It raises `Corrupt` if the batch may not be appended, or `Unavailable` if that is not known yet.
"""

ANSWER_TIMEOUT: Final = 2.0
"""Seconds to wait for one answer, so that several tries fit into a leader election."""


async def append_batch(
    connection: NatsConnection,
    stream: str,
    batch: EventBatch,
    patience: float,
    guard: AppendGuard | None = None,
) -> AppendOutcome:
    """Send a batch until its outcome is known; no further try begins after `patience` seconds."""
    connection = replace(connection, patience=min(connection.patience, ANSWER_TIMEOUT))
    ends = asyncio.get_running_loop().time() + patience
    doubt, failures = False, 0
    newest: int | None = None
    while True:
        answer = await _publish_if_allowed(connection, batch, guard, newest)
        found: LookupOutcome = PlaceFree(newest)
        match answer:
            case PublishAccepted(last):
                return BatchAppended(_record_batch(batch, last))
            case StreamFull(detail):
                return LogUnreachable(detail, ambiguous=doubt)
            case PublishUnconfirmed():
                doubt = True
                found = await _look_up_batch(connection, stream, batch)
            case PublishContested():
                found = await _look_up_batch(connection, stream, batch)
            case PublishNotSent():
                pass
        if not isinstance(found, PlaceFree):
            return found
        newest = found.newest
        if asyncio.get_running_loop().time() >= ends:
            return LogUnreachable(answer.detail, ambiguous=doubt)
        await wait_backoff(failures)
        failures += 1


async def _publish_if_allowed(
    connection: NatsConnection, batch: EventBatch, guard: AppendGuard | None, newest: int | None
) -> PublishOutcome:
    try:
        if guard is not None:
            await guard(batch)
    except Unavailable as unknown:
        return PublishNotSent(unknown.detail)
    return await publish_batch(connection, batch, newest)


def _record_batch(batch: EventBatch, last: int) -> tuple[RecordedEvent, ...]:
    first = last - len(batch.messages) + 1
    return tuple(message.record_at(place) for place, message in enumerate(batch.messages, first))


async def _look_up_batch(
    connection: NatsConnection, stream: str, batch: EventBatch
) -> LookupOutcome:
    """Look the batch up at the leader, which is also what to do where nobody answers."""
    try:
        return await _compare_at_leader(connection, stream, batch)
    except Unavailable:
        return PlaceFree()


async def _compare_at_leader(
    connection: NatsConnection, stream: str, batch: EventBatch
) -> LookupOutcome:
    """Compare what is stored in the batch's place; raises `UnreadableEnd` if it is no event."""
    behind = batch.after.stream_sequence if batch.after else 0
    reader = HistoryReader(
        connection=connection, stream=stream, subjects=batch.subjects, leader=True
    )
    first = await reader.find_next(behind + 1)
    if first is not None and (
        stored_batch := await _read_stored_batch(connection, stream, batch, first)
    ):
        return BatchAlreadyStored(stored_batch)
    end = await reader.read_end()
    if end is not None and end.unreadable is not None and _is_in_place(batch, end):
        raise end.unreadable
    last = end.last if end else None
    place = last.stream_sequence if last else 0
    if first is None and place >= behind:
        # The batch may still arrive, or has between the two reads: what was stored there then is
        # looked up before the next try, so only what is stray behind `behind` may be followed.
        return PlaceFree(end.newest if end and place == behind else None)
    return BatchConflict(last.sequence if last else 0)


def _is_in_place(batch: EventBatch, end: HistoryEnd) -> bool:
    """Return whether the batch would follow the last event that can be read."""
    last = end.last.sequence if end.last else 0
    return last <= (batch.after.sequence if batch.after else 0)


async def _read_stored_batch(
    connection: NatsConnection, stream: str, batch: EventBatch, first: StoredMessage
) -> tuple[RecordedEvent, ...]:
    """Return the batch as stored from `first` on, or nothing if other bytes are stored there."""
    payloads = [message.payload for message in batch.messages]
    if first.payload != payloads[0]:
        return ()
    places = range(first.stream_sequence + 1, first.stream_sequence + len(payloads))
    rest = [await get_message(connection, stream, place, leader=True) for place in places]
    if [message.payload for message in rest if message] != payloads[1:]:
        return ()
    return _record_batch(batch, places.stop - 1)
