"""Watches a session: stored events, then live ones, without gap or repeat.

The watcher subscribes before it reads, and joins stored and live events by session sequence. It
reads missed events from the log: after a gap, and after every few seconds without a message,
because a lost last message leaves no gap. It needs no consumer on the server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.direct_get import parse_stored_message
from turnlog.events.jetstream.nats_connection import NatsConnection, wait_backoff
from turnlog.events.jetstream.session_reads import (
    SHORT_RANGE,
    find_event,
    read_last_event,
    read_range,
    walk_back,
)
from turnlog.events.jetstream.subscriptions import LiveSubscription, open_live_subscription

HEAD_CHECK_SECONDS: Final = 3.0
"""Seconds without a message after which the session's last event is read."""


async def watch_session(
    connection: NatsConnection, stream: str, subjects: str, after: int
) -> AsyncGenerator[RecordedEvent]:
    """Yield a session's events after a sequence, forever; waits for a log that is unreachable."""
    seen: RecordedEvent | int = after
    live_event: RecordedEvent | None = None
    failures = 0
    async with open_live_subscription(connection, subjects) as live:
        while True:
            try:
                newest = live_event or await read_last_event(
                    connection, stream, subjects, leader=False
                )
                fresh = (
                    await _read_unseen(connection, stream, subjects, seen, newest) if newest else []
                )
            except Unavailable:
                failures += 1
                await wait_backoff(failures)
                continue
            for event in fresh:
                seen = event
                yield event
            failures = 0
            live_event = await _wait_for_live_event(live)


async def _wait_for_live_event(live: LiveSubscription) -> RecordedEvent | None:
    message = await live.wait_for_next(HEAD_CHECK_SECONDS)
    if message is None:
        return None
    found = parse_stored_message(message)
    return decode_event(found.payload, found.stream_sequence)


async def _read_unseen(
    connection: NatsConnection,
    stream: str,
    subjects: str,
    seen: RecordedEvent | int,
    newest: RecordedEvent,
) -> list[RecordedEvent]:
    if isinstance(seen, RecordedEvent):
        return await read_range(connection, stream, subjects, seen.head, newest)
    missing = newest.sequence - seen
    if missing <= 0:
        return []
    if missing <= SHORT_RANGE:
        return await walk_back(connection, stream, newest, missing)
    if seen == 0:
        return await read_range(connection, stream, subjects, None, newest)
    known = await find_event(connection, stream, subjects, seen, newest)
    return await read_range(connection, stream, subjects, known.head, newest)
