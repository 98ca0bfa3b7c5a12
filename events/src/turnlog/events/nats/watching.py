"""Watches a session: stored events, then live ones, without gap or repeat.

The watcher subscribes before it reads, and joins stored and live events by session sequence. It
reads missed events from the log: after a gap, and after every few seconds without a message,
because a lost last message leaves no gap. It needs no consumer on the server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from turnlog.events.codec import read
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Unavailable
from turnlog.events.nats.arrivals import Arrivals, arrivals
from turnlog.events.nats.backoff import back_off
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.fetching import held
from turnlog.events.nats.finding import find
from turnlog.events.nats.reading import SHORT, between, last, walk

CHECK_EVERY: Final = 3.0
"""Seconds without a message after which the session's last event is read."""


async def watch(
    connection: Connection, stream: str, subjects: str, after: int
) -> AsyncGenerator[Recorded]:
    """Yield a session's events after a sequence, forever; waits for a log that is unreachable."""
    seen: Recorded | int = after
    heard: Recorded | None = None
    failures = 0
    async with arrivals(connection, subjects) as live:
        while True:
            try:
                newest = heard or await last(connection, stream, subjects, leader=False)
                fresh = await _unread(connection, stream, subjects, seen, newest) if newest else []
            except Unavailable:
                failures += 1
                await back_off(failures)
                continue
            for event in fresh:
                seen = event
                yield event
            failures = 0
            heard = await _hear(live)


async def _hear(live: Arrivals) -> Recorded | None:
    message = await live.next(CHECK_EVERY)
    if message is None:
        return None
    found = held(message)
    return read(found.payload, found.stream_sequence)


async def _unread(
    connection: Connection,
    stream: str,
    subjects: str,
    seen: Recorded | int,
    newest: Recorded,
) -> list[Recorded]:
    if isinstance(seen, Recorded):
        return await between(connection, stream, subjects, seen.head, newest)
    missing = newest.sequence - seen
    if missing <= 0:
        return []
    if missing <= SHORT:
        return await walk(connection, stream, newest, missing)
    if seen == 0:
        return await between(connection, stream, subjects, None, newest)
    known = await find(connection, stream, subjects, seen, newest)
    return await between(connection, stream, subjects, known.head, newest)
