from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.codec import decode_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.nats.connection import NatsConnection
from turnlog.events.nats.fetching import StoredMessage, get_next_message_at_leader, get_next_message
from turnlog.events.nats.reading import SHORT_RANGE, walk_back


@dataclass(frozen=True, slots=True)
class SearchBounds:
    """The search range: the event is after `after` and before `before`."""

    after: tuple[int, int]
    """Session sequence and stream sequence of an earlier event; zeros if there is none."""
    before: int
    """Exclusive upper bound of the event's stream sequence."""
    upto: RecordedEvent
    """The first event known to follow it, or the event itself."""

    def guess_stream_sequence(self, sequence: int, *, middle: bool) -> int:
        """Return a stream sequence where the event may be: interpolated, or in the middle."""
        known, place = self.after
        width = self.before - place - 1
        if width <= 0:
            what = f"event {sequence} of session {self.upto.session}"
            raise Corrupt(what, "is not among its neighbours")
        share = 0.5 if middle else (sequence - known) / (self.upto.sequence - known)
        return place + 1 + min(width - 1, int(width * share))


async def find_event(
    connection: NatsConnection, stream: str, subjects: str, sequence: int, upto: RecordedEvent
) -> RecordedEvent:
    """Return a session's event by its sequence, at or before `upto`.

    Raises `Corrupt` if it is missing.
    """
    bounds = SearchBounds((0, 0), upto.stream_sequence, upto)
    middle = False
    while bounds.upto.sequence - sequence >= SHORT_RANGE:
        place = bounds.guess_stream_sequence(sequence, middle=middle)
        found = await _fetch_first_from(connection, stream, subjects, place)
        bounds = _narrow_bounds(bounds, place, found, sequence)
        middle = not middle
    return (await walk_back(connection, stream, bounds.upto, bounds.upto.sequence - sequence + 1))[0]


def _narrow_bounds(bounds: SearchBounds, place: int, found: RecordedEvent, sequence: int) -> SearchBounds:
    if found.sequence < sequence:
        return SearchBounds((found.sequence, found.stream_sequence), bounds.before, bounds.upto)
    return SearchBounds(bounds.after, place, found)


async def _fetch_first_from(connection: NatsConnection, stream: str, subjects: str, place: int) -> RecordedEvent:
    found: StoredMessage | None = None
    for get in (get_next_message, get_next_message_at_leader):
        found = found or await get(connection, stream, subjects, place)
    if found is None:
        raise Corrupt(f"{stream} {place}", "the events behind it are gone")
    return decode_event(found.payload, found.stream_sequence)
