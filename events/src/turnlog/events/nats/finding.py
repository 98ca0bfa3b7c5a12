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
    """The search range: the event is after `after` and before `before`."""

    after: tuple[int, int]
    """Session sequence and stream sequence of an earlier event; zeros if there is none."""
    before: int
    """Exclusive upper bound of the event's stream sequence."""
    upto: Recorded
    """The first event known to follow it, or the event itself."""

    def guess(self, sequence: int, *, middle: bool) -> int:
        """Return a stream sequence where the event may be: interpolated, or in the middle."""
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
    """Return a session's event by its sequence, at or before `upto`.

    Raises `Corrupt` if it is missing.
    """
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
