"""One try to get a batch stored, and what the stream said to it.

A single message is one request. Several are an atomic batch: all but the last are sent without
waiting, and the last commits them or fails them together, so a batch is one round trip too. What
an answer means for the batch as a whole is not decided here.
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
"""Codes by which a stream says that it stores nothing now: the place is taken, be it by this very
batch, or not all of the batch arrived."""
NO_ROOM: Final = frozenset({10002, 10023, 10028, 10047, 10077})
"""Codes by which a server says that it has no room and has stored nothing."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The batch is stored; its last message lies here."""

    last: int


@dataclass(frozen=True, slots=True)
class Contested:
    """The stream did not store it now: its place is taken, by itself or by another."""

    detail: str


@dataclass(frozen=True, slots=True)
class Full:
    """There is no room, and it is not stored."""

    detail: str


@dataclass(frozen=True, slots=True)
class Unheard:
    """Nobody took it, and it is not stored."""

    detail: str


@dataclass(frozen=True, slots=True)
class Doubtful:
    """It may be stored, or may yet be."""

    detail: str


Answer = Kept | Contested | Full | Unheard | Doubtful


async def publish(connection: Connection, batch: Batch) -> Answer:
    """Send a batch once; raises `TooLarge` where this server would never take it."""
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
    name = uuid4().hex  # of this try: a batch that was cut off may still be open
    for number in range(1, count + 1):
        headers = dict(guard) if number == 1 else {}
        if count > 1:
            headers[Header.BATCH_ID.value] = name
            headers[Header.BATCH_SEQUENCE.value] = str(number)
        if number == count > 1:
            headers[Header.BATCH_COMMIT.value] = "1"
        yield headers
