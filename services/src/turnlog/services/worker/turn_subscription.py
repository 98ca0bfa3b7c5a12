"""The worker's subscription: a shared durable consumer delivers turns to `TurnRunner`.

FastStream runs the subscription with manual acknowledgements, on the process's own connection: one
that FastStream makes ends for good at an error of a server that it takes for final, such as a
refused password while a cluster restarts. Each of the worker's slots is a subscriber of its own
that has at most one message, so nothing is fetched before there is time for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Final

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
from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.nats_connection import NatsConnection
from turnlog.events.subjects import CLAIMABLE_TURN_SUBJECTS, SESSIONS_STREAM, WORKERS_CONSUMER
from turnlog.services.worker.delivery_handling import handle_message
from turnlog.services.worker.fair_turns import FairTurns, JetStreamTurnQueue, ListTenants
from turnlog.services.worker.turn_runner import TurnRunner

PULL_TIMEOUT: Final = 5.0
"""How long one pull request stays open before it is repeated."""

HAND_BACK_SHARE: Final = 0.6
"""Share of the grace time after which unfinished turns are handed back."""


async def _list_no_tenants() -> Sequence[str]:
    return ()


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
    connection: NatsConnection,
    slots: int,
    grace: float,
    answering: TurnRunner,
    list_tenants: ListTenants | None = None,
) -> TurnBroker:
    """Build the broker whose subscribers run turns; nothing runs until it is started.

    The tenants that are listed share the slots fairly.
    """
    broker = TurnBroker(connection, grace)

    def is_stopping() -> bool:
        return answering.stop_requested.is_set()

    fair = FairTurns(
        slots=slots,
        queue=JetStreamTurnQueue(connection),
        list_tenants=list_tenants or _list_no_tenants,
        is_stopping=is_stopping,
    )

    async def on_turn(message: NatsMessage) -> None:
        await handle_message(message, connection, answering, fair)

    for _ in range(slots):
        broker.subscriber(
            stream=JStream(SESSIONS_STREAM, declare=False),
            durable=WORKERS_CONSUMER,
            config=ConsumerConfig(filter_subjects=list(CLAIMABLE_TURN_SUBJECTS)),
            pull_sub=PullSub(batch_size=1, timeout=PULL_TIMEOUT),
            inbox_prefix=f"{connection.inbox_prefix}.".encode(),
            ack_policy=AckPolicy.MANUAL,
        )(on_turn)
    return broker


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
