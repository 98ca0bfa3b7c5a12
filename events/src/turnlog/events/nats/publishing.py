"""Appending a batch by compare-and-set, until its outcome is known.

A single message is one request. Several messages are an atomic batch: all but the last are sent
without waiting, and the last commits or fails them together, so a batch is one round trip too.

Any answer other than an acknowledgement is checked at the stream's leader. Only then is the outcome
reported, or are the very same bytes sent again. A batch is therefore stored once, however often it
is sent, and a conflict is always proven.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from nats import errors
from nats.js.api import Header

from turnlog.events.codec import MAX_EVENT_BYTES, Batch
from turnlog.events.errors import TooLarge
from turnlog.events.nats.answers import Ack, Denied, ask
from turnlog.events.nats.connection import Absent, Connection, Silent
from turnlog.events.nats.sizes import check_size

GUARDED: Final = "Nats-Expected-Last-Subject-Sequence-Subject"

OVERSIZE: Final = 10054
NOT_NOW: Final = frozenset({10071, 10164, 10176})
"""Codes of a stream that did not store the batch now: its place is taken, possibly by this very
batch, or part of the batch did not arrive.
"""
NO_ROOM: Final = frozenset({10002, 10023, 10028, 10047, 10077})
"""Codes of a server that has no space and stored nothing."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The batch is stored; `last_sequence` is the stream sequence of its last message."""

    last: int


@dataclass(frozen=True, slots=True)
class Contested:
    """The batch is not stored now: its place is taken, by itself or by another batch."""

    detail: str


@dataclass(frozen=True, slots=True)
class Full:
    """The server has no space; the batch is not stored."""

    detail: str


@dataclass(frozen=True, slots=True)
class Unheard:
    """No server received the batch; it is not stored."""

    detail: str


@dataclass(frozen=True, slots=True)
class Doubtful:
    """The batch may be stored, or may still be."""

    detail: str


Answer = Kept | Contested | Full | Unheard | Doubtful


async def publish(connection: Connection, batch: Batch) -> Answer:
    """Send a batch once; raises `TooLarge` if this server would never accept it."""
    largest = max(len(message.payload) for message in batch.messages)
    check_size(connection, "event", largest)
    if not connection.nc.is_connected:
        return Unheard("not connected")
    try:
        ack = await _send(connection, batch)
    except Denied as denied:
        return _declined(denied, largest)
    except Absent as absent:
        return Unheard(absent.detail)
    except (Silent, errors.Error) as silent:
        return Doubtful(str(silent))
    return Kept(ack.seq)


def _declined(denied: Denied, largest: int) -> Answer:
    if denied.code == OVERSIZE:
        raise TooLarge("event", largest, MAX_EVENT_BYTES)
    if denied.code in NO_ROOM:
        return Full(denied.detail)
    return Contested(denied.detail) if denied.code in NOT_NOW else Doubtful(denied.detail)


async def _send(connection: Connection, batch: Batch) -> Ack:
    *others, (last, commit) = zip(batch.messages, _headers(batch), strict=True)
    for message, headers in others:
        await connection.nc.publish(message.subject, message.payload, headers=headers)
    return await ask(connection, last.subject, Ack, last.payload, commit)


def _headers(batch: Batch) -> Iterator[dict[str, str]]:
    guard = {
        Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(
            batch.after.stream_sequence if batch.after else 0
        ),
        GUARDED: batch.subjects,
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
