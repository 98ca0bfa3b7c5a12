"""Call snapshots: a recorded call with everything its session knew when the prompt was fixed.

One snapshot explains why a prompt is what it is; two explain why two prompts differ. Events of the
library are no part of the session's record. Where they are given, they name the edit behind a
segment's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.kinds import Unknown
from turnlog.events.library import LIBRARY_KINDS, LibraryEvent, understood
from turnlog.events.manifest import Manifest
from turnlog.events.phase import PhaseEntered
from turnlog.events.session import BlueprintMoved, ProfileSwitched, SessionOpened
from turnlog.events.turn import TurnQueued, TurnSubmitted
from turnlog.projections.audit.calls import call_in
from turnlog.projections.audit.fates import Fate, Fates, fates
from turnlog.projections.audit.known import Further, Known
from turnlog.projections.session.state import SessionState

_RUNNING: Final = (ProfileSwitched, SessionOpened)


@dataclass(frozen=True, slots=True)
class Edit:
    """An event of the library, and its decoded payload."""

    recorded: Recorded
    event: LibraryEvent | Unknown


@dataclass(frozen=True, slots=True)
class Side:
    """A call, and what its session knew when the call was made."""

    recorded: Recorded
    """The event that fixed the prompt."""
    call: ContextAssembled
    record: Known
    """Events of the session, including those after the call."""
    known: Known
    """The events up to the state that was assembled."""
    state: SessionState
    fates: Fates
    edits: Sequence[Edit]
    """All edits of the library, before and after the call."""

    @property
    def manifest(self) -> Manifest:
        """The manifest of the call."""
        return self.call.manifest

    @property
    def opened_at(self) -> int:
        """Sequence of the session's first event."""
        return self.known.events[0].sequence

    @property
    def opened(self) -> Recorded:
        """The event that defines the session: its opening, or the latest blueprint move."""
        return self.made[-1]

    @property
    def made(self) -> Sequence[Recorded]:
        """The events that defined the session: all blueprint moves, or else the opening."""
        said = self.known.events
        moves = [each for each in said if isinstance(each.event, BlueprintMoved)]
        return moves or [next(each for each in said if isinstance(each.event, SessionOpened))]

    @property
    def running(self) -> Recorded:
        """The event that set profile and model: the opening, or the latest switch."""
        said = (each for each in reversed(self.known.events) if isinstance(each.event, _RUNNING))
        return next(said)

    @property
    def entered(self) -> Recorded | None:
        """The event that entered the phase of the call; None without phases."""
        said = reversed(self.known.events)
        return next((each for each in said if isinstance(each.event, PhaseEntered)), None)

    @property
    def asked(self) -> Fate:
        """The timeline of the turn that the call is for."""
        fate = self.fates.get(self.call.turn)
        if fate is None:
            raise Corrupt(f"turn {self.call.turn}", "nothing began it")
        return fate

    @property
    def brought(self) -> TurnSubmitted | TurnQueued:
        """The submission of that turn, with its inputs."""
        event = self.asked.begun.event
        if isinstance(event, TurnSubmitted | TurnQueued):
            return event
        raise Corrupt(f"turn {self.call.turn}", "nothing submitted it")

    def knew(self, recorded: Recorded) -> bool:
        """Return whether an event of the session or of the library came before the call."""
        if recorded.envelope.type in LIBRARY_KINDS:
            return recorded.envelope.time <= self.manifest.at
        if recorded.sequence > self.known.end:
            return False
        if recorded.session == self.known.session:
            return True
        # A fork has a copy of the event at the sequence of the original.
        twin = self.known.at(recorded.sequence)
        return twin is not None and not _ids(twin).isdisjoint(_ids(recorded))


def side_of(record: Known, call: str, library: Iterable[Recorded] = ()) -> Side:
    """Build the snapshot of one call; refuse a call that was never made."""
    recorded, fixed = _made(record, call)
    known = record.upto(fixed.manifest.sequence)
    state = known.state()
    edits = tuple(Edit(each, understood(each)) for each in library)
    return Side(recorded, fixed, record, known, state, fates(known, state.submitted), edits)


def _made(record: Known, call: str) -> tuple[Recorded, ContextAssembled]:
    try:
        return call_in(record.events, call)
    except Refused:
        if record.whole:
            raise
        raise Further(record.session, range(1, record.end + 1)) from None


def _ids(recorded: Recorded) -> frozenset[str]:
    """Return the ids of an event: its own, and for a fork's copy that of the original."""
    envelope = recorded.envelope
    return frozenset(filter(None, (envelope.id, envelope.copyof)))
