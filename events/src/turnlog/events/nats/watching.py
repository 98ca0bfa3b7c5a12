"""Watching a session: its past, then what comes, as one run without gap or repeat.

The watcher listens before it looks, and joins past and live by the session's own sequence. What
it did not hear it reads from the log: after a gap, and every few seconds when nothing is heard,
since a lost last message shows no gap. It needs no consumer on the server.
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
"""Seconds of silence after which the session's head is looked at."""


async def watch(
    connection: Connection, stream: str, subjects: str, after: int
) -> AsyncGenerator[Recorded]:
    """Give a session's events behind a sequence, for ever; an unreachable log is waited for."""
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
