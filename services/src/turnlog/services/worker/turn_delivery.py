"""A delivered turn, and what a worker may do with its message afterwards."""

from __future__ import annotations

from dataclasses import dataclass

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
