from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.log.ports import RawEvent
from turnlog.events.nats.backoff import wait_backoff
from turnlog.events.nats.connection import NatsConnection
from turnlog.events.nats.delivery import stream_deliveries
from turnlog.events.nats.streams import StreamInfo, fetch_stream_info

MAX_FAILURES: Final = 8
"""Maximum consecutive failures, for restarting a bounded read and for a stream that seems too
short.
"""


async def stream_raw_events(
    connection: NatsConnection, stream: str, subjects: str, after: int, *, live: bool
) -> AsyncGenerator[Sequence[RawEvent]]:
    """Yield events after `after`, up to the one that was last at the start, or forever if `live`.

    Survives server restarts. Raises `Corrupt` if the stream is no longer the same one, and
    `Unavailable` if a bounded read cannot continue.
    """
    began: StreamInfo | None = None
    given: RawEvent | None = None
    failures = 0
    while True:
        try:
            began = await _check_same_stream(connection, stream, began, given)
            end = None if live else began.last_sequence
            async with aclosing(_stream_until(end, connection, stream, subjects, given or after)) as bulks:
                async for bulk in bulks:
                    given, failures = bulk[-1], 0
                    yield bulk
                return
        except Unavailable:
            failures += 1
            if not live and failures > MAX_FAILURES:
                raise
            await wait_backoff(failures)


async def _check_same_stream(
    connection: NatsConnection, stream: str, began: StreamInfo | None, given: RawEvent | None
) -> StreamInfo:
    """Return the stream's information; raises `Corrupt` if it is another stream by now."""
    failures = 0
    while True:
        facts = await fetch_stream_info(connection, stream)
        if began is None:
            return facts
        if began.created != facts.created:
            raise Corrupt(f"stream {stream}", f"was made anew at {facts.created} while it was read")
        if given is None or given.stream_sequence <= facts.last_sequence:
            return began
        if failures == MAX_FAILURES:
            detail = f"was rolled back behind {facts.last_sequence} while it was read"
            raise Corrupt(f"stream {stream}", detail)
        # Right after an election a leader may not know its own last sequence.
        failures += 1
        await wait_backoff(failures)


async def _stream_until(
    end: int | None, connection: NatsConnection, stream: str, subjects: str, after: RawEvent | int
) -> AsyncGenerator[Sequence[RawEvent]]:
    known = None if isinstance(after, int) else after
    place = after if isinstance(after, int) else after.stream_sequence
    if end is not None and place >= end:
        return
    async with aclosing(stream_deliveries(connection, stream, subjects, place - (known is not None))) as got:
        async for bulk in got:
            raws = [raw for raw in bulk.events if end is None or raw.stream_sequence <= end]
            ended = end is not None and (bulk.is_drained or len(raws) < len(bulk.events))
            if raws and known:
                raws, known = _drop_known_event(raws, known), None
            if raws:
                yield raws
            if ended:
                return


def _drop_known_event(raws: list[RawEvent], known: RawEvent) -> list[RawEvent]:
    if raws[0] != known:
        place = f"stream sequence {known.stream_sequence}"
        raise Corrupt(place, "was rolled back while it was read: another event lies there")
    return raws[1:]
