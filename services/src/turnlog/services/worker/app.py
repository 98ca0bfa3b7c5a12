"""The worker's subscription: a shared durable consumer delivers turns to `TurnRunner`.

FastStream runs the subscription with manual acknowledgements. Each of the worker's slots is a
subscriber of its own that has at most one message, so nothing is fetched before there is time for
it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, assert_never

import structlog
from faststream import AckPolicy
from faststream.nats import JStream, NatsBroker, NatsMessage, PullSub
from nats import errors
from nats.js.api import ConsumerConfig

from turnlog.events.codec import read
from turnlog.events.errors import Corrupt, TurnlogError
from turnlog.events.ids import SESSIONS, TURNS_TO_TAKE
from turnlog.events.nats.workers import WORKERS
from turnlog.events.turn import TurnReleased, TurnSubmitted
from turnlog.services.runtime.tasks import stopped
from turnlog.services.worker.answering import Answering
from turnlog.services.worker.delivery import Delivery, Hold, Later, Settled, Silent, Verdict

_log = structlog.get_logger("turnlog.worker")

PULL_SECONDS: Final = 5.0
"""How long one pull request stays open before it is repeated."""
RETRY_SECONDS: Final = 1.0
"""Seconds until a delivery is repeated that failed because a service was unreachable."""
HAND_BACK: Final = 0.6
"""Share of the grace time after which unfinished turns are handed back."""


def build(url: str, places: int, grace: float, answering: Answering) -> NatsBroker:
    """Build the broker whose subscribers run turns; nothing runs until it is started."""
    broker = NatsBroker(
        url.split(","),
        ack_policy=AckPolicy.MANUAL,
        graceful_timeout=grace,
        max_reconnect_attempts=-1,
        logger=None,
    )

    async def on_turn(message: NatsMessage) -> None:
        await take(message, answering)

    for _ in range(places):
        broker.subscriber(
            stream=JStream(SESSIONS, declare=False),
            durable=WORKERS,
            config=ConsumerConfig(filter_subjects=list(TURNS_TO_TAKE)),
            pull_sub=PullSub(batch_size=1, timeout=PULL_SECONDS),
            ack_policy=AckPolicy.MANUAL,
        )(on_turn)
    return broker


async def take(message: NatsMessage, answering: Answering) -> None:
    """Run the turn of a message and settle the message.

    A worker that was silent for too long does not settle it: the message was redelivered by then.
    """
    clock = asyncio.get_running_loop()
    hold = Hold(answering.ack_wait, clock.time())
    try:
        verdict = await _answered(message, answering, hold)
    except TurnlogError as error:
        _log.warning("turn-postponed", error=str(error))
        verdict = Later(RETRY_SECONDS)
    except Exception:  # noqa: BLE001 - whatever it is, the delivery needs an answer
        # A bug must be visible; the turn continues until its claim limit or deadline.
        _log.exception("turn-broke")
        verdict = Later(RETRY_SECONDS)
    await _settle(message, verdict if hold.lasts(clock.time()) else Silent())


@asynccontextmanager
async def working(broker: NatsBroker, answering: Answering, grace: float) -> AsyncGenerator[None]:
    """Run turns while the body runs; then finish them or hand them back within the grace time."""
    await broker.start()
    try:
        yield
    finally:
        handing_back = asyncio.create_task(_hand_back(answering, grace * HAND_BACK))
        await _end(broker)
        await stopped(handing_back)


async def _end(broker: NatsBroker) -> None:
    try:
        await broker.stop()
    except (errors.Error, OSError) as error:
        # All subscribers have been waited for; without NATS there is no connection to drain.
        _log.warning("nats-gone", error=str(error) or type(error).__name__)
        await (await broker.connect()).close()


async def _hand_back(answering: Answering, seconds: float) -> None:
    await asyncio.sleep(seconds)
    answering.stopping.set()


async def _answered(message: NatsMessage, answering: Answering, hold: Hold) -> Verdict:
    try:
        delivery = _delivery(message, answering, hold)
    except Corrupt as error:
        # An unreadable event cannot be answered; the projector quarantines the session.
        _log.error("turn-unreadable", error=str(error))
        return Settled()
    with answering.tracing.turn(delivery.session, delivery.turn, delivery.traceparent):
        return await answering.answer(delivery)


def _delivery(message: NatsMessage, answering: Answering, hold: Hold) -> Delivery:
    metadata = message.raw_message.metadata
    recorded = read(message.raw_message.data, metadata.sequence.stream)
    if not isinstance(recorded.event, TurnSubmitted | TurnReleased):
        raise Corrupt(message.raw_message.subject, "it is not a turn to be answered")
    answering.sessions.note(recorded)
    return Delivery(
        tenant=recorded.tenant,
        session=recorded.session,
        turn=recorded.event.turn,
        stream_sequence=recorded.stream_sequence,
        redelivered=metadata.num_delivered > 1,
        traceparent=recorded.envelope.traceparent,
        in_progress=partial(_in_progress, message, hold),
    )


async def _in_progress(message: NatsMessage, hold: Hold) -> None:
    at = asyncio.get_running_loop().time()
    if hold.lasts(at):  # A message that was redelivered cannot be reclaimed by asking for more time
        await message.in_progress()
        hold.since = at


async def _settle(message: NatsMessage, verdict: Verdict) -> None:
    match verdict:
        case Settled():
            await message.ack()
        case Later(seconds=seconds):
            await message.nack(delay=seconds)
        case Silent():
            pass
        case _ as never:
            assert_never(never)
