"""Reading a whole stream, or a tenant's part of it, in bulk and in order.

An ordered consumer of our own: nats-py's answers flow control before its reader has read, and
loses messages without a word once its buffer is full. This one answers when the reader has got
there, so a slow reader slows the server down. Whenever a message is missing or the server falls
silent, it begins anew behind the last event it gave.
"""

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
"""How often in a row reading the past is begun anew before it is given up."""


async def follow(
    connection: Connection, stream: str, subjects: str, after: int, *, live: bool
) -> AsyncGenerator[Sequence[Raw]]:
    """Give what lies behind `after`, up to what was last when it began, or for ever if `live`.

    Survives restarts of the server. Raises `Corrupt` when the stream is no longer the one it
    was, and `Unavailable` when the past cannot be read on.
    """
    began: Facts | None = None
    failures = 0
    while True:
        try:
            began = await _same(connection, stream, began)
            end = None if live else began.last
            async with aclosing(_upto(end, connection, stream, subjects, after)) as bulks:
                async for bulk in bulks:
                    after, failures = bulk[-1].stream_sequence, 0
                    yield bulk
                return
        except Unavailable:
            failures += 1
            if not live and failures > FAILURES:
                raise
            await back_off(failures)


async def _same(connection: Connection, stream: str, began: Facts | None) -> Facts:
    facts = await facts_of(connection, stream)
    if began is not None and began.created != facts.created:
        raise Corrupt(f"stream {stream}", f"was made anew at {facts.created} while it was read")
    return began or facts


async def _upto(
    end: int | None, connection: Connection, stream: str, subjects: str, after: int
) -> AsyncGenerator[Sequence[Raw]]:
    if end is not None and after >= end:
        return
    async with aclosing(deliver(connection, stream, subjects, after)) as bulks:
        async for bulk in bulks:
            raws = [raw for raw in bulk.raws if end is None or raw.stream_sequence <= end]
            if raws:
                yield raws
            if end is not None and (bulk.drained or len(raws) < len(bulk.raws)):
                return
