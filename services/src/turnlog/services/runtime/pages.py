"""A session's stored events in pages, so that memory does not grow with its length.

Neither a broken chain nor an undecodable event stops the iteration. From there on every event
stored under the session's name is read as it is stored, and an event that cannot be decoded is
yielded as raw bytes. Verification, not this module, judges whether a session is sound.
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
"""Maximum number of events in a page."""
FIRST: Final = 50
"""Events in the first page, before the size of the events is known."""
BYTES: Final = 4_000_000
"""Stored bytes of a page if all its events were as large as the largest one of the page before."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A stored event that cannot be decoded."""

    number: int
    """Its number in the session, from 1, in stored order."""
    stored: bytes
    detail: str


Told = Recorded | Unread


async def pages(log: Log, key: Key, last: Recorded | None) -> AsyncGenerator[Sequence[Told]]:
    """Yield a session's events in stored order, from the first one up to `last`.

    `last` is None when the session's last event cannot be read.
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
    """Yield the events after an event, up to a stream position, by scanning the log."""
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
