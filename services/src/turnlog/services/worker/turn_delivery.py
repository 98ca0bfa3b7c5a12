"""A delivered turn, its lease, and what a worker may do with it afterwards.

An acknowledgement belongs to the message and not to the delivery: what a stalled worker sends after
a redelivery acts on its successor's delivery. A superseded worker therefore sends nothing at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from turnlog.events.model.child_events import ChildSettled

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDelivery:
    """The message that delivered a turn, as the worker sees it."""

    tenant: str
    session: str
    turn: int
    stream_sequence: int
    redelivered: bool
    traceparent: str | None
    extend_delivery: Callable[[], Awaitable[None]]
    """Reports to the server that the message is still being processed."""
    settled_child: ChildSettled | None = None
    """The settled child that the message is about; None if it is about the turn."""


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
