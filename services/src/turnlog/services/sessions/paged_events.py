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

from turnlog.events.codec import decode_event
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.store.ports import EventLog, RawEvent
from turnlog.projections.audit.verify.hash_chain import ChainKey, parse_chain_key

MAX_PAGE_EVENTS: Final = 500
"""Maximum number of events in a page."""

FIRST_PAGE_EVENTS: Final = 50
"""Events in the first page, before the size of the events is known."""

MAX_PAGE_BYTES: Final = 4_000_000
"""Stored bytes of a page if all its events were as large as the largest one of the page before."""


@dataclass(frozen=True, slots=True)
class UndecodablePagedEvent:
    """A stored event that cannot be decoded."""

    number: int
    """Its number in the session, from 1, in stored order."""
    stored: bytes
    detail: str


PagedEvent = RecordedEvent | UndecodablePagedEvent


async def read_event_pages(
    log: EventLog, key: ChainKey, last: RecordedEvent | None
) -> AsyncGenerator[Sequence[PagedEvent]]:
    """Yield a session's events in stored order, from the first one up to `last`.

    `last` is None when the session's last event cannot be read.
    """
    after: ChainHead | None = None
    many = FIRST_PAGE_EVENTS
    with suppress(Corrupt):
        while last and (read_upto := after.sequence if after else 0) < last.sequence:
            upto = last
            if last.sequence - read_upto > many:
                upto = await log.find_event(*key, read_upto + many, last)
            events = await log.read_range(*key, after, upto)
            yield events
            after, largest = upto.head, max(len(each.stored) for each in events)
            many = max(1, min(MAX_PAGE_EVENTS, MAX_PAGE_BYTES // largest))
        if last:
            return
    end = last.stream_sequence if last else await log.get_last_stream_sequence(key[0])
    async with aclosing(_scan_stored_events(log, key, after, end)) as rest:
        async for page in rest:
            yield page


async def _scan_stored_events(
    log: EventLog, key: ChainKey, after: ChainHead | None, end: int
) -> AsyncGenerator[Sequence[PagedEvent]]:
    """Yield the events after an event, up to a stream position, by scanning the log."""
    place, last_sequence = (after.stream_sequence, after.sequence) if after else (0, 0)
    async with aclosing(log.stream_raw_events(key[0], place, live=False)) as bulks:
        async for bulk in bulks:
            mine = [raw for raw in bulk if parse_chain_key(raw.subject) == key]
            mine = [raw for raw in mine if raw.stream_sequence <= end]
            if mine:
                yield [_decode_event(raw, last_sequence + n) for n, raw in enumerate(mine, 1)]
            last_sequence += len(mine)
            if bulk[-1].stream_sequence >= end:
                return


def _decode_event(raw: RawEvent, number: int) -> PagedEvent:
    try:
        return decode_event(raw.stored, raw.stream_sequence)
    except Corrupt as fault:
        return UndecodablePagedEvent(number, raw.stored, fault.detail)
