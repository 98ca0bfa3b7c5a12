"""The queue of turns: a delivered message with its lease, and the durable consumer behind it.

An acknowledgement belongs to the message and not to the delivery: what a stalled worker sends after
a redelivery acts on its successor's delivery. A superseded worker therefore sends nothing at all.

The durable consumer is the clock of every open turn: a message stays pending until its turn is
settled. The position up to which all turns are settled is saved beside the snapshots, so that a
deleted consumer is recreated from there. Without a saved position it starts at the beginning. That
is safe, since messages of settled turns are acknowledged at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

SAFE_LEASE_SHARE: Final = 0.9
"""Share of the lease time that the receiver relies on: the server began to count before it did."""


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


@dataclass(frozen=True, slots=True)
class TurnDelivery:
    """The message that delivered a turn, as the worker sees it."""

    tenant: str
    session: str
    turn: int
    stream_sequence: int
    redelivered: bool
    traceparent: str | None
    extend_delivery: Callable[[], Awaitable[None]]
    """Tells the server that the message is still being worked on."""


@dataclass
class DeliveryLease:
    """How long a delivery belongs to its receiver; after that the server may have redelivered it.
    """

    seconds: float
    """Seconds of silence after which the server redelivers the message."""
    renewed_at: float
    """When the server last heard of it, by the worker's clock."""

    def is_valid(self, at: float) -> bool:
        """Return whether the delivery still belongs to this worker."""
        return at - self.renewed_at < self.seconds * SAFE_LEASE_SHARE
