"""A delivery from its arrival to its acknowledgement: run its turn, then settle or hand back."""

from __future__ import annotations

import asyncio
import traceback
from typing import Final

import structlog
from faststream.nats import NatsMessage

from turnlog.events.async_tasks import run_tasks, wait_for_wake
from turnlog.events.errors import (
    Corrupt,
    Refused,
    TurnlogError,
    Unavailable,
    UnreadableEnd,
)
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.model.child_events import ChildSettled
from turnlog.events.registry import ClaimableEvent
from turnlog.events.stray_messages import parse_history_key
from turnlog.projections.session.decide import UNKNOWN_SESSION
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
    message: NatsMessage, connection: NatsConnection, answering: TurnRunner
) -> None:
    """Run the turn of a message and settle the message.

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
        verdict = await _run_until_reachable(held, answering)
    await held.settle(verdict)


async def _run_until_reachable(held: HeldMessage, answering: TurnRunner) -> DeliveryVerdict:
    """Run the turn of a message, again while the log is out of reach.

    Another worker would leave it alone for `ack_wait`: only this one knows that the attempt which
    it may have started, and could not record more of, is not running any more.
    """
    clock = asyncio.get_running_loop().time
    tries, until = 1, clock() + answering.ack_wait
    while True:
        try:
            return await _run_message(held, answering, tries)
        except Unavailable as error:
            if clock() >= until or answering.stop_requested.is_set():
                return _find_failure_verdict(held.message, answering, error)
            _log.warning("turn-postponed", error=str(error), seconds=RETRY_DELAY)
            tries += 1
            await wait_for_wake(answering.stop_requested, RETRY_DELAY)
        except Exception as error:  # noqa: BLE001 - whatever it is, the delivery needs an answer
            return _find_failure_verdict(held.message, answering, error)


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
    try:
        delivery = _parse_delivery(held, answering, tries)
    except Corrupt as error:
        # What is no event, or cannot be read, cannot be answered; the projector reports it.
        _log.error("turn-undecodable", error=str(error))
        return DeliverySettled()
    with answering.tracing.start_turn_span(delivery.session, delivery.turn, delivery.traceparent):
        return await answering.run_turn(delivery)


def _parse_delivery(held: HeldMessage, answering: TurnRunner, tries: int) -> TurnDelivery:
    raw = held.message.raw_message
    log, metadata = answering.sessions.log, raw.metadata
    recorded = log.decode_event(raw.data, metadata.sequence.stream)
    if (recorded.tenant, recorded.session) != parse_history_key(raw.subject):
        raise Corrupt(raw.subject, "it is an event of another session")
    if not isinstance(recorded.event, ClaimableEvent):
        raise Corrupt(raw.subject, "it is not a turn to be answered")
    answering.sessions.apply_observed_event(recorded)
    event = recorded.event
    return TurnDelivery(
        tenant=recorded.tenant,
        session=recorded.session,
        turn=event.turn,
        stream_sequence=recorded.stream_sequence,
        deliveries=metadata.num_delivered,
        tries=tries,
        traceparent=recorded.envelope.traceparent,
        settled_child=event if isinstance(event, ChildSettled) else None,
    )
