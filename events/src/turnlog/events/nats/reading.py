"""Reads of one session: its last event, ranges of events, and events by position.

A short range is walked back from its end, because an exact get takes a third of a millisecond
wherever the event is; a long one is fetched in batches of exact count. Where a follower lagged, the
leader is asked, so that a gap is only reported if it is real.

The stream sequence of an event is known only from its neighbours. To find an event by its session
sequence, a few interpolated guesses narrow the range until the rest can be walked. Every second
guess is the middle, so there are never many.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from turnlog.events.codec import read
from turnlog.events.content import digest_of
from turnlog.events.envelope import Head, Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.nats.batches import exacts, run
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.fetching import (
    Held,
    exact,
    exact_at_leader,
    last_at_leader,
    last_of,
    next_at_leader,
)

SHORT: Final = 8
"""Maximum events that are walked back one by one."""
PAGE: Final = 500
"""Events requested in one batch, and exact gets in flight at once."""


async def last(
    connection: Connection, stream: str, subjects: str, *, leader: bool
) -> Recorded | None:
    """Return a session's last event; only the leader's answer is never stale."""
    get = last_at_leader if leader else last_of
    found = await get(connection, stream, subjects)
    return _decoded(found) if found else None


async def at(
    connection: Connection, stream: str, tenant: str, places: Sequence[int]
) -> list[Recorded]:
    """Return the events at these stream sequences; raises `Corrupt` if one is not the tenant's."""
    events: list[Recorded] = []
    for start in range(0, len(places), PAGE):
        page = places[start : start + PAGE]
        found: Mapping[int, Held] = {}
        if len(page) > 1:
            found = await exacts(connection, stream, page)
        events += [
            _decoded(found[place]) if place in found else await _surely(connection, stream, place)
            for place in page
        ]
    for event in events:
        if event.tenant != tenant:
            raise Corrupt(f"{stream} {event.stream_sequence}", f"is no event of tenant {tenant}")
    return events


async def between(
    connection: Connection, stream: str, subjects: str, after: Head | None, upto: Recorded
) -> list[Recorded]:
    """Return the events after `after` up to `upto`; raises `Corrupt` if the chain is broken."""
    count = upto.sequence - (after.sequence if after else 0)
    if count <= 0:
        return []
    if count <= SHORT:
        events = await walk(connection, stream, upto, count)
    else:
        events = await _scan(connection, stream, subjects, after, upto, count)
    if events[0].envelope.prevhash != (after.hash if after else None):
        raise Corrupt(_name(events[0]), "does not continue the event before it")
    return events


async def walk(connection: Connection, stream: str, upto: Recorded, count: int) -> list[Recorded]:
    """Return the last `count` events up to `upto`, each found from the next; checks every link."""
    events = [upto]
    while len(events) < count:
        later = events[-1]
        place = later.envelope.prevstreamseq or later.stream_sequence - 1
        events.append(await _surely(connection, stream, place))
        _check(events[-1], later)
    return events[::-1]


async def _scan(
    connection: Connection,
    stream: str,
    subjects: str,
    after: Head | None,
    upto: Recorded,
    count: int,
) -> list[Recorded]:
    events = [*await _forward(connection, stream, subjects, after, count - 1), upto]
    if len(events) == count and all(_linked(*pair) for pair in pairwise(events)):
        return events
    return await walk(connection, stream, upto, count)


async def onward(
    connection: Connection, stream: str, subjects: str, after: Head | None, count: int
) -> list[Recorded]:
    """Return up to `count` events after `after`; raises `Corrupt` if the chain is broken."""
    events = await _forward(connection, stream, subjects, after, count)
    if events and events[0].envelope.prevhash != (after.hash if after else None):
        raise Corrupt(_name(events[0]), "does not continue the event before it")
    for pair in pairwise(events):
        _check(*pair)
    return events


async def all_under(
    connection: Connection, stream: str, subject: str, upto: Head
) -> list[Recorded]:
    """Return the events under a subject up to `upto`; the leader confirms their end."""
    events: list[Recorded] = []
    start, last = 1, upto.stream_sequence
    while start <= last:
        page = await run(connection, stream, subject, start, PAGE)
        if not page:
            more = await next_at_leader(connection, stream, subject, start)
            page = [more] if more else []
        events += [_decoded(each) for each in page if each.stream_sequence <= last]
        start = page[-1].stream_sequence + 1 if page else last + 1
    return events


async def _forward(
    connection: Connection, stream: str, subjects: str, after: Head | None, count: int
) -> list[Recorded]:
    start = after.stream_sequence + 1 if after else 1
    events: list[Recorded] = []
    while len(events) < count:
        wanted = min(PAGE, count - len(events))
        page = await run(connection, stream, subjects, start, wanted)
        if not page:
            break
        events += map(_decoded, page)
        start = page[-1].stream_sequence + 1
    return events


async def _surely(connection: Connection, stream: str, place: int) -> Recorded:
    found: Held | None = None
    for get in (exact, exact_at_leader) if place > 0 else ():
        found = found or await get(connection, stream, place)
    if found is None:
        raise Corrupt(f"{stream} {place}", "holds no event any more")
    return _decoded(found)


def _decoded(found: Held) -> Recorded:
    return read(found.payload, found.stream_sequence)


def _linked(earlier: Recorded, later: Recorded) -> bool:
    return (
        (later.tenant, later.session) == (earlier.tenant, earlier.session)
        and later.sequence == earlier.sequence + 1
        and later.envelope.prevhash == digest_of(earlier.stored)
    )


def _check(earlier: Recorded, later: Recorded) -> None:
    if not _linked(earlier, later):
        raise Corrupt(_name(later), f"does not continue {_name(earlier)}")


def _name(event: Recorded) -> str:
    return f"event {event.sequence} of session {event.session}"
