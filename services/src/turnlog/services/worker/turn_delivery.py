"""A delivered turn: how long its message belongs to a worker, and what may be done with it.

An acknowledgement belongs to the message and not to the delivery: what a stalled worker sends after
a redelivery acts on its successor's delivery. A worker whose lease is over sends nothing at all.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, assert_never

from faststream.nats import NatsMessage
from nats.aio.msg import Msg

from turnlog.events.errors import Unavailable
from turnlog.events.jetstream.nats_connection import NatsConnection, wait_backoff
from turnlog.events.model.child_events import ChildSettled


@dataclass(frozen=True, slots=True)
class DeliverySettled:
    """Nothing is left to do for this turn: acknowledge."""


@dataclass(frozen=True, slots=True)
class DeliveryDeferred:
    """Redeliver the message after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class DeliverySuperseded:
    """The attempt was superseded: its successor settles the message."""


DeliveryVerdict = DeliverySettled | DeliveryDeferred | DeliverySuperseded


TurnKey = tuple[str, str, int]
"""Tenant, session and number of a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDelivery:
    """The message that delivered a turn, as the worker sees it."""

    tenant: str
    session: str
    turn: int
    stream_sequence: int
    deliveries: int
    """How often the message was delivered; this is the last time."""
    tries: int = 1
    """How often the worker has tried to run it; this is the last time."""
    traceparent: str | None
    settled_child: ChildSettled | None = None
    """The settled child that the message is about; None if it is about the turn."""

    @property
    def key(self) -> TurnKey:
        """Which turn it is."""
        return self.tenant, self.session, self.turn

    @property
    def is_repeated(self) -> bool:
        """Whether the turn may have got further than this worker has seen."""
        return self.deliveries > 1 or self.tries > 1


REDELIVERY_SHARE: Final = 1 / 3
"""Share of `ack_wait` after which a message that nobody works on is delivered again.

Turns that are delivered to a host that has vanished wait that long. A running attempt is left alone
for all of `ack_wait`: it may be a model's answer that was paid for.
"""


EXTENSION_SHARE: Final = 1 / 3
"""Share of its lease after which a delivery is extended."""


CONFIRMATION_SECONDS: Final = 1.0
"""Seconds that the consumer's leader has to confirm that a message is being processed."""

SAFE_LEASE_SHARE: Final = 0.9
"""Share of the lease time that the receiver relies on: the server began to count before it did."""


def compute_redelivery_wait(ack_wait: float) -> float:
    """Return the seconds of silence after which the server delivers a message again."""
    return ack_wait * REDELIVERY_SHARE


@dataclass
class DeliveryLease:
    """How long a delivery belongs to its receiver.

    After that the server may have redelivered it.
    """

    seconds: float
    """Seconds of silence after which the server redelivers the message."""
    renewed_at: float
    """When the server last heard of it, by the worker's clock."""

    def is_valid(self, at: float) -> bool:
        """Return whether the delivery still belongs to this worker."""
        return at - self.renewed_at < self.seconds * SAFE_LEASE_SHARE


@dataclass(frozen=True, slots=True)
class HeldMessage:
    """A delivered message with its lease: extended while it is handled, then settled once."""

    message: NatsMessage
    connection: NatsConnection
    lease: DeliveryLease

    async def keep_leased(self) -> None:
        """Extend the lease until it is over, because nobody has confirmed an extension for long."""
        while self._is_leased():
            await asyncio.sleep(self.lease.seconds * EXTENSION_SHARE)
            await self._extend_lease()

    async def settle(self, verdict: DeliveryVerdict) -> None:
        """Acknowledge the message or hand it back; after the end of the lease do neither."""
        match verdict:
            case DeliverySettled():
                if self._is_leased():
                    await self.message.ack()
            case DeliveryDeferred(seconds=seconds):
                # A leader that has just answered gets it. Handing a message back to one that has
                # vanished would do nothing; and doing it twice may take it from the next worker.
                if await self._extend_lease():
                    await self.message.nack(delay=seconds)
            case DeliverySuperseded():
                pass
            case _ as never:
                assert_never(never)

    async def _extend_lease(self) -> bool:
        """Report that the message is being processed; return whether that is confirmed in time.

        A lease that is over stays over: the message may be somebody else's.
        """
        failures = 0
        while self._is_leased():
            sent_at = asyncio.get_running_loop().time()
            try:
                await self.connection.send_request(
                    self.message.raw_message.reply,
                    Msg.Ack.Progress,
                    patience=min(CONFIRMATION_SECONDS, self.lease.seconds * EXTENSION_SHARE),
                )
            except Unavailable:
                failures += 1
                await wait_backoff(failures)
            else:
                self.lease.renewed_at = sent_at
                return True
        return False

    def _is_leased(self) -> bool:
        return self.lease.is_valid(asyncio.get_running_loop().time())
