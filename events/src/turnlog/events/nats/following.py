from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final

from turnlog.events.errors import Corrupt, Unavailable
from turnlog.events.log.ports import Raw
from turnlog.events.nats.backoff import back_off
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.delivery import deliver
from turnlog.events.nats.streams import Facts, facts_of

FAILURES: Final = 8
"""Maximum consecutive failures, for restarting a bounded read and for a stream that seems too
short.
"""


async def follow(
    connection: Connection, stream: str, subjects: str, after: int, *, live: bool
) -> AsyncGenerator[Sequence[Raw]]:
    """Yield events after `after`, up to the one that was last at the start, or forever if `live`.

    Survives server restarts. Raises `Corrupt` if the stream is no longer the same one, and
    `Unavailable` if a bounded read cannot continue.
    """
    began: Facts | None = None
    given: Raw | None = None
    failures = 0
    while True:
        try:
            began = await _same(connection, stream, began, given)
            end = None if live else began.last
            async with aclosing(_upto(end, connection, stream, subjects, given or after)) as bulks:
                async for bulk in bulks:
                    given, failures = bulk[-1], 0
                    yield bulk
                return
        except Unavailable:
            failures += 1
            if not live and failures > FAILURES:
                raise
            await back_off(failures)


async def _same(
    connection: Connection, stream: str, began: Facts | None, given: Raw | None
) -> Facts:
    """Return the stream's information; raises `Corrupt` if it is another stream by now."""
    failures = 0
    while True:
        facts = await facts_of(connection, stream)
        if began is None:
            return facts
        if began.created != facts.created:
            raise Corrupt(f"stream {stream}", f"was made anew at {facts.created} while it was read")
        if given is None or given.stream_sequence <= facts.last:
            return began
        if failures == FAILURES:
            detail = f"was rolled back behind {facts.last} while it was read"
            raise Corrupt(f"stream {stream}", detail)
        # Right after an election a leader may not know its own last sequence.
        failures += 1
        await back_off(failures)


async def _upto(
    end: int | None, connection: Connection, stream: str, subjects: str, after: Raw | int
) -> AsyncGenerator[Sequence[Raw]]:
    known = None if isinstance(after, int) else after
    place = after if isinstance(after, int) else after.stream_sequence
    if end is not None and place >= end:
        return
    async with aclosing(deliver(connection, stream, subjects, place - (known is not None))) as got:
        async for bulk in got:
            raws = [raw for raw in bulk.raws if end is None or raw.stream_sequence <= end]
            ended = end is not None and (bulk.drained or len(raws) < len(bulk.raws))
            if raws and known:
                raws, known = _behind(raws, known), None
            if raws:
                yield raws
            if ended:
                return


def _behind(raws: list[Raw], known: Raw) -> list[Raw]:
    if raws[0] != known:
        place = f"stream sequence {known.stream_sequence}"
        raise Corrupt(place, "was rolled back while it was read: another event lies there")
    return raws[1:]
