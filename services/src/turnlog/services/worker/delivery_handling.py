"""A delivery from its arrival to its acknowledgement: run its turn, then settle or hand back."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import structlog
from faststream.nats import NatsMessage

from turnlog.events.async_tasks import run_tasks, wait_for_wake
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import (
    Corrupt,
    Refused,
    TurnlogError,
    Unavailable,
    UnreadableEnd,
)
from turnlog.events.jetstream.direct_get import StoredMessage
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.model.child_events import ChildSettled
from turnlog.events.registry import ClaimableEvent
from turnlog.events.stray_messages import parse_history_key
from turnlog.projections.session.decide import UNKNOWN_SESSION
from turnlog.services.worker.fair_turns import FairTurns
from turnlog.services.worker.turn_delivery import (
    DeliveryDeferred,
    DeliveryLease,
    DeliverySettled,
    DeliveryVerdict,
    HeldMessage,
    TurnDelivery,
    compute_redelivery_wait,
)
from turnlog.services.worker.turn_runner import TurnRunner

_log = structlog.get_logger("turnlog.worker")


RETRY_DELAY: Final = 1.0
"""Seconds until a worker itself tries again what it could not record."""

REDELIVERY_DELAY: Final = 1.0
"""Seconds until a delivery is repeated that failed, the first time; then twice as long each time,
up to `ack_wait`, so that what fails for ever costs little.
"""


async def handle_message(
    message: NatsMessage,
    connection: NatsConnection,
    answering: TurnRunner,
    fair: FairTurns | None = None,
) -> None:
    """Run the turn of a message and settle the message; before it those that `fair` chooses.

    A worker that was silent for too long does not settle it: the message was redelivered by then.
    """
    held = HeldMessage(
        message,
        connection,
        DeliveryLease(
            compute_redelivery_wait(answering.ack_wait), asyncio.get_running_loop().time()
        ),
    )
    async with run_tasks(held.keep_leased()):
        verdict = await _run_fairly(held, answering, fair)
    await held.settle(verdict)


async def _run_fairly(
    held: HeldMessage, answering: TurnRunner, fair: FairTurns | None
) -> DeliveryVerdict:
    if fair is None:
        return await _run_own(held, answering)
    raw = held.message.raw_message
    tenant, _ = parse_history_key(raw.subject)
    async with fair.run_fairly(
        tenant,
        raw.metadata.sequence.stream,
        partial(_run_ahead, answering),
        is_repeated=raw.metadata.num_delivered > 1,
    ):
        return await _run_own(held, answering)


async def _run_own(held: HeldMessage, answering: TurnRunner) -> DeliveryVerdict:
    try:
        return await _run_until_reachable(partial(_run_message, held, answering), answering)
    except Exception as error:  # noqa: BLE001 - whatever it is, the delivery needs an answer
        return _find_failure_verdict(held.message, answering, error)


async def _run_ahead(answering: TurnRunner, message: StoredMessage) -> None:
    """Run a turn before it is delivered; whatever is left of it, its message brings later."""

    async def run(tries: int) -> DeliveryVerdict:
        recorded = await _decode_turn(
            answering, message.subject, message.payload, message.stream_sequence
        )
        return await _run_recorded(answering, recorded, deliveries=1, tries=tries)

    try:
        await _run_until_reachable(run, answering)
    except Exception as error:  # noqa: BLE001 - the message of the turn comes, and meets it again
        name = type(error).__name__
        _log.warning("turn-ahead-postponed", error=name, stream_sequence=message.stream_sequence)


async def _run_until_reachable(
    run: Callable[[int], Awaitable[DeliveryVerdict]], answering: TurnRunner
) -> DeliveryVerdict:
    """Run a turn, again while the log is out of reach; `run` is given the number of the try.

    Another worker would leave it alone for `ack_wait`: only this one knows that the attempt which
    it may have started, and could not record more of, is not running any more.
    """
    clock = asyncio.get_running_loop().time
    tries, until = 1, clock() + answering.ack_wait
    while True:
        try:
            return await run(tries)
        except Unavailable as error:
            if clock() >= until or answering.stop_requested.is_set():
                raise
            _log.warning("turn-postponed", error=str(error), seconds=RETRY_DELAY)
            tries += 1
            await wait_for_wake(answering.stop_requested, RETRY_DELAY)


def _find_failure_verdict(
    message: NatsMessage, answering: TurnRunner, error: Exception
) -> DeliveryVerdict:
    """Log why a turn was given up, and return what to do with its delivery."""
    delivered = message.raw_message.metadata.num_delivered
    seconds = min(REDELIVERY_DELAY * 2.0 ** min(delivered - 1, 10), answering.ack_wait)
    match error:
        case Refused(code=code) if code == UNKNOWN_SESSION:
            # Whoever can write to NATS can write this; no later delivery would find the session.
            _log.error("turn-without-session", subject=message.raw_message.subject)
            return DeliverySettled()
        case UnreadableEnd():
            # Nothing can be recorded behind it, so no later delivery could end the turn.
            _log.error("turn-stopped", error=str(error))
            return DeliverySettled()
        case TurnlogError():
            _log.warning("turn-postponed", error=str(error), seconds=seconds)
        case _:
            # A bug must be visible, but no message: it may repeat what a provider or a prompt says.
            # The turn is tried again until its claim limit or deadline.
            frames = "".join(traceback.format_tb(error.__traceback__))
            _log.error(
                "turn-failed-unexpectedly",
                error=type(error).__name__,
                frames=frames,
                seconds=seconds,
            )
    return DeliveryDeferred(seconds)


async def _run_message(held: HeldMessage, answering: TurnRunner, tries: int) -> DeliveryVerdict:
    raw = held.message.raw_message
    try:
        place = raw.metadata.sequence.stream
        recorded = await _decode_turn(answering, raw.subject, raw.data, place)
    except Corrupt as error:
        # What is no event, or cannot be read, cannot be answered; the projector reports it.
        _log.error("turn-undecodable", error=str(error))
        return DeliverySettled()
    deliveries = raw.metadata.num_delivered
    return await _run_recorded(answering, recorded, deliveries=deliveries, tries=tries)


async def _decode_turn(
    answering: TurnRunner, subject: str, stored: bytes, stream_sequence: int
) -> RecordedEvent:
    recorded = await answering.sessions.log.decode_event(stored, stream_sequence)
    if (recorded.tenant, recorded.session) != parse_history_key(subject):
        raise Corrupt(subject, "it is an event of another session")
    if not isinstance(recorded.event, ClaimableEvent):
        raise Corrupt(subject, "it is not a turn to be answered")
    return recorded


async def _run_recorded(
    answering: TurnRunner, recorded: RecordedEvent, *, deliveries: int, tries: int
) -> DeliveryVerdict:
    answering.sessions.apply_observed_event(recorded)
    event = recorded.event
    if not isinstance(event, ClaimableEvent):
        raise TypeError(type(event).__name__)
    delivery = TurnDelivery(
        tenant=recorded.tenant,
        session=recorded.session,
        turn=event.turn,
        stream_sequence=recorded.stream_sequence,
        deliveries=deliveries,
        tries=tries,
        traceparent=recorded.envelope.traceparent,
        settled_child=event if isinstance(event, ChildSettled) else None,
    )
    with answering.tracing.start_turn_span(delivery.session, delivery.turn, delivery.traceparent):
        return await answering.run_turn(delivery)
