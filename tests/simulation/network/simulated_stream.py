"""A stream of the simulated server: messages in order, and what a lagging replica has of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tests.simulation.network.simulated_connection import DeliveryRef


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMessage:
    """A message as it is stored."""

    subject: str
    sequence: int
    at: datetime
    data: bytes
    previous: int
    """Position of the subject's previous message; 0 for its first."""
    delivery: DeliveryRef | None
    """The delivery on whose behalf it was sent."""


def get_lookup_key(subject: str) -> str:
    """Return what a message is looked up by: its session, or its subject."""
    kind, *names = subject.split(".")
    return f"session.{names[0]}.{names[1]}.>" if kind == "session" else subject


@dataclass(kw_only=True)
class SimulatedStream:
    """Messages by position and by lookup key."""

    name: str
    created: datetime
    messages: list[SimulatedMessage] = field(default_factory=list[SimulatedMessage])
    times: list[datetime] = field(default_factory=list[datetime])
    places: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    latest: dict[str, int] = field(default_factory=dict[str, int])

    def store_message(
        self, subject: str, at: datetime, data: bytes, holding: DeliveryRef | None
    ) -> SimulatedMessage:
        """Append a message."""
        sequence = len(self.messages) + 1
        before = self.latest.get(subject, 0)
        stored = SimulatedMessage(
            subject=subject, sequence=sequence, at=at, data=data, previous=before, delivery=holding
        )
        self.messages.append(stored)
        self.times.append(at)
        self.places.setdefault(get_lookup_key(subject), []).append(sequence)
        self.latest[subject] = sequence
        return stored

    def find_end(self, at: datetime | None = None) -> int:
        """Return the last position, now or at a given time."""
        return len(self.messages) if at is None else bisect_right(self.times, at)

    def get_message(self, place: int, end: int) -> SimulatedMessage | None:
        """Return the message at a position, among those up to `end`."""
        return self.messages[place - 1] if 0 < place <= end else None

    def find_last(self, key: str, end: int) -> SimulatedMessage | None:
        """Return the last message with a key, among those up to `end`."""
        places = self.places.get(key, [])
        found = bisect_right(places, end)
        return self.messages[places[found - 1] - 1] if found else None

    def list_messages(
        self, key: str, start: int, count: int, end: int
    ) -> Sequence[SimulatedMessage]:
        """List at most `count` messages with a key from a position on, among those up to `end`."""
        places = self.places.get(key, [])
        first = bisect_left(places, start)
        return [self.messages[p - 1] for p in places[first : first + count] if p <= end]
