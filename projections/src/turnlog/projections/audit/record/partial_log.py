"""The events of a session that an explanation works on, all of them or the part that is loaded.

Some ranges of events are loaded without a gap, and events of a few rare kinds are always loaded:
the session's definition, phases, pinned files, redactions. A question that needs other events
raises `MissingEvents` with the range to read, or `MissingState`. An answer is therefore the same
however little of a long session was read for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState

LASTING_LEAVES: Final = (
    *("session", "prompt", "phase", "redaction", "memory"),
    *("turn.marked", "turn.feedback"),
)
"""Leaves of the subjects whose events are always loaded."""

MIN_RANGE_EVENTS: Final = 64
"""Minimum number of events by which a range grows; a longer range doubles."""


class MissingEvents(Exception):
    """Raised when an answer needs events that are not loaded."""

    def __init__(self, session: str, wanted: range) -> None:
        super().__init__(session, wanted)
        self.session = session
        self.wanted = wanted


class MissingState(Exception):
    """Raised when an answer needs the session state right after a sequence."""

    def __init__(self, session: str, sequence: int) -> None:
        super().__init__(session, sequence)
        self.session = session
        self.sequence = sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialLog:
    """The loaded events of one session up to `end`, in order."""

    session: str
    events: Sequence[RecordedEvent]
    stretches: tuple[range, ...]
    """Ranges of sequences that are loaded without a gap, in order; no two of them touch."""
    end: int
    """The last sequence of the session."""
    states: Mapping[int, SessionState] = field(default_factory=dict[int, SessionState])
    """The session state right after some sequences."""

    @property
    def is_complete(self) -> bool:
        """Whether all events of the session are loaded."""
        return len(self.events) == self.end - self.events[0].sequence + 1

    def trim_after(self, sequence: int) -> PartialLog:
        """Return the log as it was at a sequence."""
        events = self.events[: bisect_left(self.events, sequence + 1, key=_get_sequence)]
        cut = (range(each.start, min(each.stop, sequence + 1)) for each in self.stretches)
        return PartialLog(
            session=self.session,
            events=events,
            stretches=tuple(filter(None, cut)),
            end=sequence,
            states=self.states,
        )

    def get_state(self) -> SessionState:
        """Return the session state at the end; raise `MissingState` if it cannot be folded."""
        if (found := self.states.get(self.end)) is not None:
            return found
        if not self.is_complete:
            raise MissingState(self.session, self.end)
        if (state := fold(self.events)) is None:
            raise Corrupt("event 1", "it does not open a session")
        return state

    def find_event(self, sequence: int) -> RecordedEvent | None:
        """Return the event of a sequence, or None if the session has no such sequence.

        Raises `MissingEvents` if the session has the event and it is not loaded.
        """
        place = bisect_left(self.events, sequence, key=_get_sequence)
        if place < len(self.events) and self.events[place].sequence == sequence:
            return self.events[place]
        if sequence < self.events[0].sequence or sequence > self.end:
            return None
        raise MissingEvents(self.session, range(sequence, sequence + 1))

    def iterate_from(self, sequence: int) -> Iterator[RecordedEvent]:
        """Yield the events from a sequence to the end; raise `MissingEvents` at a gap."""
        while sequence <= self.end:
            loaded_range = self._require_range(sequence)
            yield from self._select_events(range(sequence, loaded_range.stop))
            if loaded_range.stop <= self.end:
                raise self.request_after(loaded_range)
            sequence = loaded_range.stop

    def iterate_back(self, sequence: int) -> Iterator[RecordedEvent]:
        """Yield the events from a sequence back to the first; raise `MissingEvents` at a gap."""
        while sequence >= self.events[0].sequence:
            loaded_range = self._require_range(sequence)
            yield from reversed(self._select_events(range(loaded_range.start, sequence + 1)))
            if loaded_range.start > self.events[0].sequence:
                raise self.request_before(loaded_range)
            sequence = loaded_range.start - 1

    def _select_events(self, sequences: range) -> Sequence[RecordedEvent]:
        first, stop = (
            bisect_left(self.events, each, key=_get_sequence)
            for each in (sequences.start, sequences.stop)
        )
        return self.events[first:stop]

    def _require_range(self, sequence: int) -> range:
        found = self.find_range(sequence)
        if found is None:
            raise MissingEvents(self.session, range(sequence, sequence + 1))
        return found

    def find_range(self, sequence: int) -> range | None:
        """Return the loaded range that contains a sequence, or None."""
        return next((each for each in self.stretches if sequence in each), None)

    def trim_range(self, sequences: range) -> range:
        """Return a range without what is loaded at its beginning and at its end."""
        first, stop = sequences.start, sequences.stop
        for loaded_range in self.stretches:
            if loaded_range.start <= first < loaded_range.stop:
                first = loaded_range.stop
            if loaded_range.start < stop <= loaded_range.stop:
                stop = loaded_range.start
        return range(first, max(first, stop))

    def request_after(self, loaded_range: range) -> MissingEvents:
        """Build the request for the events after a loaded range."""
        more = loaded_range.stop + max(MIN_RANGE_EVENTS, len(loaded_range))
        later = (each.start for each in self.stretches if each.start > loaded_range.stop)
        return MissingEvents(
            self.session, range(loaded_range.stop, min(more, self.end + 1, *later))
        )

    def request_before(self, loaded_range: range) -> MissingEvents:
        """Build the request for the events before a loaded range."""
        more = loaded_range.start - max(MIN_RANGE_EVENTS, len(loaded_range))
        earlier = (each.stop for each in self.stretches if each.stop < loaded_range.start)
        return MissingEvents(self.session, range(max(more, 1, *earlier), loaded_range.start))

    def add_state(self, state: SessionState) -> PartialLog:
        """Return the log with the session state at one more sequence."""
        return replace(self, states={**self.states, state.head.sequence: state})

    def add_events(self, more: Sequence[RecordedEvent]) -> PartialLog:
        """Return the log with one more range of events."""
        events = {each.sequence: each for each in (*self.events, *more)}
        added = range(more[0].sequence, more[-1].sequence + 1)
        return replace(
            self,
            events=tuple(events[each] for each in sorted(events)),
            stretches=_merge_ranges((*self.stretches, added)),
        )


def build_complete_log(events: Sequence[RecordedEvent]) -> PartialLog:
    """Build a log from all events of a session."""
    first, last = events[0], events[-1]
    return PartialLog(
        session=first.session,
        events=events,
        stretches=(range(first.sequence, last.sequence + 1),),
        end=last.sequence,
    )


def _merge_ranges(ranges: Iterable[range]) -> tuple[range, ...]:
    found: list[range] = []
    for each in sorted(ranges, key=lambda loaded: loaded.start):
        if found and each.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, each.stop))
        else:
            found.append(each)
    return tuple(found)


def _get_sequence(recorded: RecordedEvent) -> int:
    return recorded.sequence
