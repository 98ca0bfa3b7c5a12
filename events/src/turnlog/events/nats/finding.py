"""Finding a session's event by its own sequence, in a session of any length.

Where an event lies in the stream is told by its neighbours only. But a session's events lie in
order, so a few guesses between two that are known come near enough to read the rest by count; a
guess that helped little is followed by one in the middle, so there are never many.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.codec import read
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.fetching import Held, next_at_leader, next_of
from turnlog.events.nats.reading import SHORT, walk


@dataclass(frozen=True, slots=True)
class Bounds:
    """What is known: the event wanted lies behind `after` and before `before`."""

    after: tuple[int, int]
    """The session's sequence of an event in front of it, and where that lies; zeros for none."""
    before: int
    """A place in the stream that it lies in front of."""
    upto: Recorded
    """The first event known to lie behind it, or the event itself."""

    def guess(self, sequence: int, *, middle: bool) -> int:
        """Give a place where the event may lie: in proportion, or in the middle."""
        known, place = self.after
        width = self.before - place - 1
        if width <= 0:
            what = f"event {sequence} of session {self.upto.session}"
            raise Corrupt(what, "is not among its neighbours")
        share = 0.5 if middle else (sequence - known) / (self.upto.sequence - known)
        return place + 1 + min(width - 1, int(width * share))


async def find(
    connection: Connection, stream: str, subjects: str, sequence: int, upto: Recorded
) -> Recorded:
    """Give a session's event by its sequence, at or before `upto`; `Corrupt` where it is gone."""
    bounds = Bounds((0, 0), upto.stream_sequence, upto)
    middle = False
    while bounds.upto.sequence - sequence >= SHORT:
        place = bounds.guess(sequence, middle=middle)
        found = await _first_from(connection, stream, subjects, place)
        bounds = _narrowed(bounds, place, found, sequence)
        middle = not middle
    return (await walk(connection, stream, bounds.upto, bounds.upto.sequence - sequence + 1))[0]


def _narrowed(bounds: Bounds, place: int, found: Recorded, sequence: int) -> Bounds:
    if found.sequence < sequence:
        return Bounds((found.sequence, found.stream_sequence), bounds.before, bounds.upto)
    return Bounds(bounds.after, place, found)


async def _first_from(connection: Connection, stream: str, subjects: str, place: int) -> Recorded:
    found: Held | None = None
    for get in (next_of, next_at_leader):
        found = found or await get(connection, stream, subjects, place)
    if found is None:
        raise Corrupt(f"{stream} {place}", "the events behind it are gone")
    return read(found.payload, found.stream_sequence)
