"""A session's events, a bounded number at a time: however long it is, no more is held at once.

What cannot be read ends nothing. From there on everything that lies under the session's name is
taken as it is stored, whether or not one event continues the other, and one that nobody can
decode is given as the bytes it is. Whether a session is sound is for whoever verifies it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final

from turnlog.events.codec import read
from turnlog.events.envelope import Head, Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.log.ports import Log, Raw
from turnlog.projections.audit.chain import Key, key_of

PAGE: Final = 500
"""Events in one, at the most."""
FIRST: Final = 50
"""Events in the first one, as long as nobody knows how large they are."""
BYTES: Final = 4_000_000
"""Stored bytes of one, were all as large as the largest of the one before."""


@dataclass(frozen=True, slots=True)
class Unread:
    """An event that cannot be decoded."""

    number: int
    """Which of the session's it is, from 1, in the order they are stored."""
    stored: bytes
    detail: str


Told = Recorded | Unread


async def pages(log: Log, key: Key, last: Recorded | None) -> AsyncGenerator[Sequence[Told]]:
    """Give the events of a tenant's session from its first up to `last`, as they are stored.

    `last` is none where the session's end cannot be read.
    """
    after: Head | None = None
    many = FIRST
    with suppress(Corrupt):
        while last and (told := after.sequence if after else 0) < last.sequence:
            upto = last
            if last.sequence - told > many:
                upto = await log.find(*key, told + many, last)
            events = await log.between(*key, after, upto)
            yield events
            after, largest = upto.head, max(len(each.stored) for each in events)
            many = max(1, min(PAGE, BYTES // largest))
        if last:
            return
    end = last.stream_sequence if last else await log.end(key[0])
    async with aclosing(_stored(log, key, after, end)) as rest:
        async for page in rest:
            yield page


async def _stored(
    log: Log, key: Key, after: Head | None, end: int
) -> AsyncGenerator[Sequence[Told]]:
    """Give what lies behind an event, up to a place, by going through the log."""
    place, told = (after.stream_sequence, after.sequence) if after else (0, 0)
    async with aclosing(log.follow(key[0], place, live=False)) as bulks:
        async for bulk in bulks:
            mine = [raw for raw in bulk if key_of(raw.subject) == key]
            mine = [raw for raw in mine if raw.stream_sequence <= end]
            if mine:
                yield [_decoded(raw, told + n) for n, raw in enumerate(mine, 1)]
            told += len(mine)
            if bulk[-1].stream_sequence >= end:
                return


def _decoded(raw: Raw, number: int) -> Told:
    try:
        return read(raw.stored, raw.stream_sequence)
    except Corrupt as fault:
        return Unread(number, raw.stored, fault.detail)
