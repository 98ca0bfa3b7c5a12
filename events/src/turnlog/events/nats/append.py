from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from turnlog.events.codec import Batch, read
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Unavailable
from turnlog.events.log.outcomes import AlreadyThere, Appended, Conflicted, Outcome, Unreachable
from turnlog.events.nats.backoff import back_off
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.fetching import (
    Held,
    exact_at_leader,
    last_at_leader,
    next_at_leader,
)
from turnlog.events.nats.publishing import Contested, Doubtful, Full, Kept, Unheard, publish

Found = AlreadyThere | Conflicted

ANSWER_WITHIN: Final = 2.0
"""Seconds to wait for one answer, so that several tries fit into a leader election."""


async def append(connection: Connection, stream: str, batch: Batch, patience: float) -> Outcome:
    """Send a batch until its outcome is known; no further try begins after `patience` seconds."""
    connection = replace(connection, patience=min(connection.patience, ANSWER_WITHIN))
    ends = asyncio.get_running_loop().time() + patience
    doubt, failures = False, 0
    while True:
        answer = await publish(connection, batch)
        found: Found | None = None
        match answer:
            case Kept(last):
                return Appended(_recorded(batch, last))
            case Full(detail):
                return Unreachable(detail, ambiguous=doubt)
            case Doubtful():
                doubt = True
                found = await _find(connection, stream, batch)
            case Contested():
                found = await _find(connection, stream, batch)
            case Unheard():
                pass
        if found is not None:
            return found
        if asyncio.get_running_loop().time() >= ends:
            return Unreachable(answer.detail, ambiguous=doubt)
        await back_off(failures)
        failures += 1


def _recorded(batch: Batch, last: int) -> tuple[Recorded, ...]:
    first = last - len(batch.messages) + 1
    return tuple(read(message.payload, first + n) for n, message in enumerate(batch.messages))


async def _find(connection: Connection, stream: str, batch: Batch) -> Found | None:
    """Look the batch up at the leader; None if neither it nor a conflicting event is stored."""
    try:
        return await _stands(connection, stream, batch)
    except Unavailable:
        return None


async def _stands(connection: Connection, stream: str, batch: Batch) -> Found | None:
    behind = batch.after.stream_sequence if batch.after else 0
    first = await next_at_leader(connection, stream, batch.subjects, behind + 1)
    if first is not None and (there := await _same(connection, stream, batch, first)):
        return AlreadyThere(there)
    head = await last_at_leader(connection, stream, batch.subjects)
    if first is None and (head.stream_sequence if head else 0) >= behind:
        # The batch may still arrive; whatever follows `behind` was stored between the two reads.
        return None
    return Conflicted(read(head.payload, head.stream_sequence).sequence if head else 0)


async def _same(
    connection: Connection, stream: str, batch: Batch, first: Held
) -> tuple[Recorded, ...]:
    """Return the batch as stored from `first` on, or nothing if other bytes are stored there."""
    payloads = [message.payload for message in batch.messages]
    if first.payload != payloads[0]:
        return ()
    places = range(first.stream_sequence + 1, first.stream_sequence + len(payloads))
    rest = [await exact_at_leader(connection, stream, place) for place in places]
    if [held.payload for held in rest if held] != payloads[1:]:
        return ()
    return _recorded(batch, places.stop - 1)
