"""The worker's subscription: a shared durable consumer delivers turns to `TurnRunner`.

FastStream runs the subscription with manual acknowledgements, on the process's own connection: one
that FastStream makes ends for good at an error of a server that it takes for final, such as a
refused password while a cluster restarts. Each of the worker's slots is a subscriber of its own
that has at most one message, so nothing is fetched before there is time for it.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Final, assert_never

import structlog
from faststream import AckPolicy
from faststream.message import StreamMessage
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from faststream.nats.subscriber.usecases import PullStreamSubscriber
from nats import errors as nats_errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig
from nats.js.errors import APIError

from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.errors import Corrupt, Refused, TurnlogError, Unavailable
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.jetstream.stream_setup import WORKERS_CONSUMER
from turnlog.events.model.child_events import ChildSettled
from turnlog.events.registry import ClaimableEvent
from turnlog.events.subjects import CLAIMABLE_TURN_SUBJECTS, SESSIONS_STREAM
from turnlog.services.caches.state_cache import UNKNOWN_SESSION
from turnlog.services.worker.turn_queue import (
    DeliveryDeferred,
    DeliveryLease,
    DeliverySettled,
    DeliverySuperseded,
    DeliveryVerdict,
    TurnDelivery,
)
from turnlog.services.worker.turn_runner import TurnRunner

_log = structlog.get_logger("turnlog.worker")

PULL_TIMEOUT: Final = 5.0
"""How long one pull request stays open before it is repeated."""
REDELIVERY_DELAY: Final = 1.0
"""Seconds until a delivery is repeated that failed, the first time; then twice as long each time,
up to `ack_wait`, so that what fails for ever costs little.
"""
HAND_BACK_SHARE: Final = 0.6
"""Share of the grace time after which unfinished turns are handed back."""


async def _pass_message(message: StreamMessage[Msg]) -> StreamMessage[Msg]:
    return message


class TurnBroker(NatsBroker):
    """The broker of a worker's slots, on a connection that is opened and closed elsewhere.

    FastStream neither decodes a message nor converts the arguments of its handler: the handler
    takes the message as it is. A delivery takes at most 0.6 times the processor time that way
    (`python -m benchmarks.faststream_choices`).
    """

    def __init__(self, connection: NatsConnection, grace: float) -> None:
        super().__init__(
            ack_policy=AckPolicy.MANUAL,
            apply_types=False,
            decoder=_pass_message,
            graceful_timeout=grace,
            logger=None,
        )
        self._shared_client = connection.nc

    async def _connect(self) -> Client:
        self.config.connect(self._shared_client)
        return self._shared_client

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Stop the slots; the connection stays open."""
        try:
            # Not that of `NatsBroker`, which drains the connection.
            await super(NatsBroker, self).stop(exc_type, exc_val, exc_tb)
        except* nats_errors.ConnectionClosedError:
            pass  # Nothing is subscribed on it any more.
        self._connection = None
        self.config.disconnect()

    async def require_listening(self) -> None:
        """Raise `Unavailable` unless every slot waits for a turn or runs one."""
        slots = [slot for slot in self.subscribers if isinstance(slot, PullStreamSubscriber)]
        idle = [slot for slot in slots if all(task.done() for task in slot.tasks)]
        if idle:
            raise Unavailable("turns", f"{len(idle)} of {len(slots)} slots take no turn")


def build_broker(
    connection: NatsConnection, slots: int, grace: float, answering: TurnRunner
) -> TurnBroker:
    """Build the broker whose subscribers run turns; nothing runs until it is started."""
    broker = TurnBroker(connection, grace)

    async def on_turn(message: NatsMessage) -> None:
        await handle_message(message, answering)

    for _ in range(slots):
        broker.subscriber(
            stream=JStream(SESSIONS_STREAM, declare=False),
            durable=WORKERS_CONSUMER,
            config=ConsumerConfig(filter_subjects=list(CLAIMABLE_TURN_SUBJECTS)),
            pull_sub=PullSub(batch_size=1, timeout=PULL_TIMEOUT),
            ack_policy=AckPolicy.MANUAL,
        )(on_turn)
    return broker


async def handle_message(message: NatsMessage, answering: TurnRunner) -> None:
    """Run the turn of a message and settle the message.

    A worker that was silent for too long does not settle it: the message was redelivered by then.
    """
    clock = asyncio.get_running_loop()
    hold = DeliveryLease(answering.ack_wait, clock.time())
    try:
        verdict = await _run_message(message, answering, hold)
    except Exception as error:  # noqa: BLE001 - whatever it is, the delivery needs an answer
        verdict = _find_failure_verdict(message, answering, error)
    await _settle_message(message, verdict if hold.is_valid(clock.time()) else DeliverySuperseded())


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
        case TurnlogError():
            _log.warning("turn-postponed", error=str(error), seconds=seconds)
        case _:
            # A bug must be visible, but no message: it may repeat what a provider or a prompt says.
            # The turn continues until its claim limit or deadline.
            frames = "".join(traceback.format_tb(error.__traceback__))
            _log.error(
                "turn-failed-unexpectedly",
                error=type(error).__name__,
                frames=frames,
                seconds=seconds,
            )
    return DeliveryDeferred(seconds)


@asynccontextmanager
async def run_broker(
    broker: TurnBroker, answering: TurnRunner, grace: float
) -> AsyncGenerator[None]:
    """Run turns while the body runs; then finish them or hand them back within the grace time.

    A start that fails stops the slots that already wait for turns.
    """
    try:
        await _start_slots(broker)
        yield
    finally:
        handing_back = asyncio.create_task(_release_unfinished(answering, grace * HAND_BACK_SHARE))
        await broker.stop()
        await cancel_tasks(handing_back)


async def _start_slots(broker: TurnBroker) -> None:
    try:
        await broker.start()
    except (APIError, nats_errors.Error, TimeoutError) as error:
        raise Unavailable("turns", f"no slot can ask for them: {type(error).__name__}") from error


async def _release_unfinished(answering: TurnRunner, seconds: float) -> None:
    await asyncio.sleep(seconds)
    answering.stop_requested.set()


async def _run_message(
    message: NatsMessage, answering: TurnRunner, hold: DeliveryLease
) -> DeliveryVerdict:
    try:
        delivery = _parse_delivery(message, answering, hold)
    except Corrupt as error:
        # An unreadable event cannot be answered; the projector quarantines the session.
        _log.error("turn-undecodable", error=str(error))
        return DeliverySettled()
    with answering.tracing.start_turn_span(delivery.session, delivery.turn, delivery.traceparent):
        return await answering.run_turn(delivery)


def _parse_delivery(
    message: NatsMessage, answering: TurnRunner, hold: DeliveryLease
) -> TurnDelivery:
    metadata = message.raw_message.metadata
    log = answering.sessions.log
    recorded = log.decode_event(message.raw_message.data, metadata.sequence.stream)
    if not isinstance(recorded.event, ClaimableEvent):
        raise Corrupt(message.raw_message.subject, "it is not a turn to be answered")
    answering.sessions.apply_observed_event(recorded)
    event = recorded.event
    return TurnDelivery(
        tenant=recorded.tenant,
        session=recorded.session,
        turn=event.turn,
        stream_sequence=recorded.stream_sequence,
        redelivered=metadata.num_delivered > 1,
        traceparent=recorded.envelope.traceparent,
        extend_delivery=partial(_extend_delivery, message, hold),
        settled_child=event if isinstance(event, ChildSettled) else None,
    )


async def _extend_delivery(message: NatsMessage, hold: DeliveryLease) -> None:
    at = asyncio.get_running_loop().time()
    if hold.is_valid(
        at
    ):  # A message that was redelivered cannot be reclaimed by asking for more time
        await message.in_progress()
        hold.renewed_at = at


async def _settle_message(message: NatsMessage, verdict: DeliveryVerdict) -> None:
    match verdict:
        case DeliverySettled():
            await message.ack()
        case DeliveryDeferred(seconds=seconds):
            await message.nack(delay=seconds)
        case DeliverySuperseded():
            pass
        case _ as never:
            assert_never(never)
