"""A delivery: one message of the durable, and what its holder may say about it.

An acknowledgement belongs to the message, not to the delivery: what a stalled worker says after
a redelivery acts on its successor's. So a worker that was superseded says nothing at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

ALMOST: Final = 0.9
"""Share of the time a delivery lasts for which its holder takes it for its own: the server began
to count before the holder did."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing is left to do for this turn: acknowledge."""


@dataclass(frozen=True, slots=True)
class Later:
    """Hand the delivery back; somebody looks at it again after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Silent:
    """Superseded: whoever holds the turn now will speak for the message."""


Verdict = Settled | Later | Silent


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a turn's holder knows of the message that brought it."""

    tenant: str
    session: str
    turn: int
    stream_sequence: int
    redelivered: bool
    traceparent: str | None
    in_progress: Callable[[], Awaitable[None]]
    """Tells the server that the holder is still at it."""


@dataclass
class Hold:
    """For how long a delivery is its holder's; then it may be somebody else's already."""

    seconds: float
    """Of silence after which the server hands the message to another."""
    since: float
    """When the server last heard of it, by the holder's clock."""

    def lasts(self, at: float) -> bool:
        """Tell whether what the holder says now is about its own delivery."""
        return at - self.since < self.seconds * ALMOST
