"""A delivered turn, its lease, and what a worker may do with it afterwards.

An acknowledgement belongs to the message and not to the delivery: what a stalled worker sends after
a redelivery acts on its successor's delivery. A superseded worker therefore sends nothing at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnlog.events.model.child_events import ChildSettled

REDELIVERY_SHARE: Final = 1 / 3
"""Share of `ack_wait` after which a message that nobody works on is delivered again.

Turns that are delivered to a host that has vanished wait that long. A running attempt is left alone
for all of `ack_wait`: it may be a model's answer that was paid for.
"""

EXTENSION_SHARE: Final = 1 / 3
"""Share of its lease after which a delivery is extended."""

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
