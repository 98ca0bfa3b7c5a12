"""Reads of one session: its last event, ranges of events, and events by position.

A short range is walked back from its end, because an exact get takes a third of a millisecond
wherever the event is; a long one is fetched in batches of exact count. Where a follower lagged, the
leader is asked, so that a gap is only reported if it is real.

The stream sequence of an event is known only from its neighbours. To find an event by its session
sequence, a few interpolated guesses narrow the range until the rest can be walked. Every second
guess is the middle, so there are never many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from turnlog.events.chain_link import is_next_event
from turnlog.events.codec import decode_event
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.errors import Corrupt, StreamHole
from turnlog.events.jetstream.direct_get import (
    StoredMessage,
    get_consecutive_messages,
    get_message,
    get_messages,
    get_next_message,
)
from turnlog.events.jetstream.history_end import HistoryReader
from turnlog.events.jetstream.js_api import fetch_stream_info
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.store.ports import RawEvent
from turnlog.events.stray_messages import decode_unless_stray

SHORT_RANGE: Final = 8
"""Maximum events that are walked back one by one."""

EVENT_PAGE_SIZE: Final = 500
"""Events requested in one batch, and exact gets in flight at once."""


async def read_last_event(
    connection: NatsConnection, stream: str, subjects: str, *, leader: bool, known: int = 0
) -> RecordedEvent | None:
    """Return a session's last event; only the leader's answer is never stale.

    Stray messages and those behind an unreadable event are passed over. The server finds no last
    message also where it cannot read it, and then accepts another first one. So before the leader's
    answer counts as a session without events, the session must have no earlier event either; raises
    `Corrupt` if it has one. `known` is the stream sequence of an end that was found before.
    """
    reader = HistoryReader(connection=connection, stream=stream, subjects=subjects, leader=leader)
    found = await reader.read_end(known)
    if found is None and leader and await reader.find_next(1):
        # An event that was appended between the two requests is found by the second try.
        found = await reader.read_end()
        if found is None:
            raise await _describe_lost_end(connection, stream, subjects)
    return found.last if found else None


async def _describe_lost_end(connection: NatsConnection, stream: str, subjects: str) -> Corrupt:
    last, page = 0, [1]
    while page:
        messages = await get_consecutive_messages(
            connection=connection,
            stream=stream,
            subjects=subjects,
            start=last + 1,
            count=EVENT_PAGE_SIZE,
        )
        page = [each.stream_sequence for each in messages]
        last = page[-1] if page else last
    detail = f"the last event of {subjects}, after sequence {last}, is missing, damaged or deleted"
    return Corrupt(f"stream {stream}", f"{detail}: restore the stream from a backup")


async def read_events_at(
    connection: NatsConnection, stream: str, tenant: str, stream_sequences: Sequence[int]
) -> list[RecordedEvent]:
    """Return the events at these stream sequences; raises `Corrupt` if one is not the tenant's."""
    events: list[RecordedEvent] = []
    for start in range(0, len(stream_sequences), EVENT_PAGE_SIZE):
        page = stream_sequences[start : start + EVENT_PAGE_SIZE]
        found: Mapping[int, StoredMessage] = {}
        if len(page) > 1:
            found = await get_messages(connection, stream, page)
        events += [
            _decode_message(found[place])
            if place in found
            else await _fetch_event(connection, stream, place)
            for place in page
        ]
    for event in events:
        if event.tenant != tenant:
            raise Corrupt(f"{stream} {event.stream_sequence}", f"is no event of tenant {tenant}")
    return events


async def read_range(
    connection: NatsConnection,
    stream: str,
    subjects: str,
    after: ChainHead | None,
    upto: RecordedEvent,
) -> list[RecordedEvent]:
    """Return the events after `after` up to `upto`; raises `Corrupt` if the chain is broken."""
    count = upto.sequence - (after.sequence if after else 0)
    if count <= 0:
        return []
    if count <= SHORT_RANGE:
        events = await walk_back(connection, stream, upto, count)
    else:
        events = await _scan_range(
            connection=connection,
            stream=stream,
            subjects=subjects,
            after=after,
            upto=upto,
            count=count,
        )
    if not is_next_event(events[0], after):
        raise Corrupt(_describe_event(events[0]), "does not continue the event before it")
    return events


async def walk_back(
    connection: NatsConnection, stream: str, upto: RecordedEvent, count: int
) -> list[RecordedEvent]:
    """Return the last `count` events up to `upto`, each found from the next; checks every link."""
    events = [upto]
    while len(events) < count:
        later = events[-1]
        place = later.envelope.prevstreamseq or later.stream_sequence - 1
        events.append(await _fetch_event(connection, stream, place))
        _check_link(events[-1], later)
    return events[::-1]


async def _scan_range(
    connection: NatsConnection,
    stream: str,
    subjects: str,
    after: ChainHead | None,
    upto: RecordedEvent,
    count: int,
) -> list[RecordedEvent]:
    events = [
        *await _fetch_forward(
            connection=connection, stream=stream, subjects=subjects, after=after, count=count - 1
        ),
        upto,
    ]
    if len(events) == count and all(_is_linked(*pair) for pair in pairwise(events)):
        return events
    return await walk_back(connection, stream, upto, count)


async def read_next_events(
    connection: NatsConnection, stream: str, subjects: str, after: ChainHead | None, count: int
) -> list[RecordedEvent]:
    """Return up to `count` events after `after`; raises `Corrupt` if the chain is broken."""
    events = await _fetch_forward(
        connection=connection, stream=stream, subjects=subjects, after=after, count=count
    )
    if events and not is_next_event(events[0], after):
        raise Corrupt(_describe_event(events[0]), "does not continue the event before it")
    for pair in pairwise(events):
        _check_link(*pair)
    return events


async def read_events_by_subject(
    connection: NatsConnection, stream: str, subject: str, upto: ChainHead
) -> tuple[list[RecordedEvent], bool]:
    """Return the events under a subject up to `upto`, and whether that is all of them.

    The server passes over a message that it cannot read, and still counts it. Which subject a
    message had that it no longer counts is not known, so then the answer is not certain.
    """
    info = await fetch_stream_info(connection, stream, subject)
    if info.subject_count == 0:
        return [], info.lost_count == 0
    raws = await read_raw_events_by_subject(connection, stream, subject)
    events = [
        event
        for raw in raws
        if raw.stream_sequence <= upto.stream_sequence
        and (event := decode_unless_stray(raw.subject, raw.stored, raw.stream_sequence))
    ]
    return events, len(raws) >= info.subject_count and info.lost_count == 0


async def read_raw_events_by_subject(
    connection: NatsConnection, stream: str, subjects: str, after: int = 0
) -> list[RawEvent]:
    """Return all events under `subjects` after a stream sequence; the leader confirms their end."""
    events: list[RawEvent] = []
    start = after + 1
    while True:
        page = await get_consecutive_messages(
            connection=connection,
            stream=stream,
            subjects=subjects,
            start=start,
            count=EVENT_PAGE_SIZE,
        )
        if not page:
            more = await get_next_message(connection, stream, subjects, start, leader=True)
            if more is None:
                return events
            page = [more]
        events += [RawEvent(each.subject, each.stream_sequence, each.payload) for each in page]
        start = page[-1].stream_sequence + 1


async def _fetch_forward(
    connection: NatsConnection, stream: str, subjects: str, after: ChainHead | None, count: int
) -> list[RecordedEvent]:
    start = after.stream_sequence + 1 if after else 1
    events: list[RecordedEvent] = []
    while len(events) < count:
        page_size = min(EVENT_PAGE_SIZE, count - len(events))
        page = await get_consecutive_messages(
            connection=connection, stream=stream, subjects=subjects, start=start, count=page_size
        )
        if not page:
            break
        events += _decode_events(page)
        start = page[-1].stream_sequence + 1
    return events


def _decode_events(messages: Iterable[StoredMessage]) -> Iterator[RecordedEvent]:
    """Yield the events in messages under the subjects of a history; stray ones are left out."""
    for each in messages:
        event = decode_unless_stray(each.subject, each.payload, each.stream_sequence)
        if event is not None:
            yield event


async def _fetch_event(connection: NatsConnection, stream: str, place: int) -> RecordedEvent:
    if place < 1:
        raise Corrupt(f"{stream} {place}", "no event can be there")
    at_follower = await get_message(connection, stream, place)
    found = at_follower or await get_message(connection, stream, place, leader=True)
    if found is None:
        raise StreamHole(stream, place, place)
    return _decode_message(found)


def _decode_message(found: StoredMessage) -> RecordedEvent:
    return decode_event(found.payload, found.stream_sequence)


def _is_linked(earlier: RecordedEvent, later: RecordedEvent) -> bool:
    is_of_session = (later.tenant, later.session) == (earlier.tenant, earlier.session)
    return is_of_session and is_next_event(later, earlier.head)


def _check_link(earlier: RecordedEvent, later: RecordedEvent) -> None:
    if not _is_linked(earlier, later):
        raise Corrupt(_describe_event(later), f"does not continue {_describe_event(earlier)}")


def _describe_event(event: RecordedEvent) -> str:
    return f"event {event.sequence} of session {event.session}"


@dataclass(frozen=True, slots=True)
class SearchBounds:
    """The search range: the event is after `after` and before `before`."""

    after: tuple[int, int]
    """Session sequence and stream sequence of an earlier event; zeros if there is none."""
    before: int
    """Exclusive upper bound of the event's stream sequence."""
    upto: RecordedEvent
    """The first event known to follow it, or the event itself."""

    def guess_stream_sequence(self, sequence: int, *, middle: bool) -> int:
        """Return a stream sequence where the event may be: interpolated, or in the middle."""
        known, place = self.after
        width = self.before - place - 1
        if width <= 0:
            what = f"event {sequence} of session {self.upto.session}"
            raise Corrupt(what, "is not among its neighbours")
        share = 0.5 if middle else (sequence - known) / (self.upto.sequence - known)
        return place + 1 + min(width - 1, int(width * share))


async def find_event(
    connection: NatsConnection, stream: str, subjects: str, sequence: int, upto: RecordedEvent
) -> RecordedEvent:
    """Return a session's event by its sequence, at or before `upto`.

    Raises `Corrupt` if it is missing.
    """
    bounds = SearchBounds((0, 0), upto.stream_sequence, upto)
    middle = False
    while bounds.upto.sequence - sequence >= SHORT_RANGE:
        place = bounds.guess_stream_sequence(sequence, middle=middle)
        found = await _fetch_first_from(connection, stream, subjects, place)
        bounds = _narrow_bounds(bounds, place, found, sequence)
        middle = not middle
    return (await walk_back(connection, stream, bounds.upto, bounds.upto.sequence - sequence + 1))[
        0
    ]


def _narrow_bounds(
    bounds: SearchBounds, place: int, found: RecordedEvent, sequence: int
) -> SearchBounds:
    if found.sequence < sequence:
        return SearchBounds((found.sequence, found.stream_sequence), bounds.before, bounds.upto)
    return SearchBounds(bounds.after, place, found)


async def _fetch_first_from(
    connection: NatsConnection, stream: str, subjects: str, place: int
) -> RecordedEvent:
    while True:
        at_follower = await get_next_message(connection, stream, subjects, place)
        found = at_follower or await get_next_message(
            connection, stream, subjects, place, leader=True
        )
        if found is None:
            raise Corrupt(f"{stream} {place}", "the events from here on are gone")
        for event in _decode_events((found,)):
            return event
        place = found.stream_sequence + 1
