from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from turnlog.events.codec import EventBatch, decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Unavailable
from turnlog.events.log.outcomes import BatchAlreadyStored, BatchAppended, BatchConflict, AppendOutcome, LogUnreachable
from turnlog.events.nats.backoff import wait_backoff
from turnlog.events.nats.connection import NatsConnection
from turnlog.events.nats.fetching import (
    StoredMessage,
    get_message_at_leader,
    get_last_message_at_leader,
    get_next_message_at_leader,
)
from turnlog.events.nats.publishing import PublishContested, PublishUnconfirmed, StreamFull, PublishAccepted, PublishNotSent, publish_batch

LookupOutcome = BatchAlreadyStored | BatchConflict

ANSWER_TIMEOUT: Final = 2.0
"""Seconds to wait for one answer, so that several tries fit into a leader election."""


async def append_batch(connection: NatsConnection, stream: str, batch: EventBatch, patience: float) -> AppendOutcome:
    """Send a batch until its outcome is known; no further try begins after `patience` seconds."""
    connection = replace(connection, patience=min(connection.patience, ANSWER_TIMEOUT))
    ends = asyncio.get_running_loop().time() + patience
    doubt, failures = False, 0
    while True:
        answer = await publish_batch(connection, batch)
        found: LookupOutcome | None = None
        match answer:
            case PublishAccepted(last):
                return BatchAppended(_decode_batch(batch, last))
            case StreamFull(detail):
                return LogUnreachable(detail, ambiguous=doubt)
            case PublishUnconfirmed():
                doubt = True
                found = await _look_up_batch(connection, stream, batch)
            case PublishContested():
                found = await _look_up_batch(connection, stream, batch)
            case PublishNotSent():
                pass
        if found is not None:
            return found
        if asyncio.get_running_loop().time() >= ends:
            return LogUnreachable(answer.detail, ambiguous=doubt)
        await wait_backoff(failures)
        failures += 1


def _decode_batch(batch: EventBatch, last: int) -> tuple[RecordedEvent, ...]:
    first = last - len(batch.messages) + 1
    return tuple(decode_event(message.payload, first + n) for n, message in enumerate(batch.messages))


async def _look_up_batch(connection: NatsConnection, stream: str, batch: EventBatch) -> LookupOutcome | None:
    """Look the batch up at the leader; None if neither it nor a conflicting event is stored."""
    try:
        return await _compare_at_leader(connection, stream, batch)
    except Unavailable:
        return None


async def _compare_at_leader(connection: NatsConnection, stream: str, batch: EventBatch) -> LookupOutcome | None:
    behind = batch.after.stream_sequence if batch.after else 0
    first = await get_next_message_at_leader(connection, stream, batch.subjects, behind + 1)
    if first is not None and (there := await _read_stored_batch(connection, stream, batch, first)):
        return BatchAlreadyStored(there)
    head = await get_last_message_at_leader(connection, stream, batch.subjects)
    if first is None and (head.stream_sequence if head else 0) >= behind:
        # The batch may still arrive; whatever follows `behind` was stored between the two reads.
        return None
    return BatchConflict(decode_event(head.payload, head.stream_sequence).sequence if head else 0)


async def _read_stored_batch(
    connection: NatsConnection, stream: str, batch: EventBatch, first: StoredMessage
) -> tuple[RecordedEvent, ...]:
    """Return the batch as stored from `first` on, or nothing if other bytes are stored there."""
    payloads = [message.payload for message in batch.messages]
    if first.payload != payloads[0]:
        return ()
    places = range(first.stream_sequence + 1, first.stream_sequence + len(payloads))
    rest = [await get_message_at_leader(connection, stream, place) for place in places]
    if [held.payload for held in rest if held] != payloads[1:]:
        return ()
    return _decode_batch(batch, places.stop - 1)
