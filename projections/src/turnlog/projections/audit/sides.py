"""Sides: a call, with everything its session knew when its prompt was fixed.

Why a prompt is what it is follows from a side; why two prompts differ follows from two. Events of
the library stand beside those of the session: they are no part of its record, and name the edit
behind a segment's text where they are given.
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
    """An event of the library, and what it says."""

    recorded: Recorded
    event: LibraryEvent | Unknown


@dataclass(frozen=True, slots=True)
class Side:
    """A call and what was known when it was made."""

    recorded: Recorded
    """The event that fixed its prompt."""
    call: ContextAssembled
    record: Known
    """Events of the session, those behind the call as well."""
    known: Known
    """Those up to the state that was assembled."""
    state: SessionState
    fates: Fates
    edits: Sequence[Edit]
    """What became of the library, before the call and after it."""

    @property
    def manifest(self) -> Manifest:
        """The record of its parts."""
        return self.call.manifest

    @property
    def opened_at(self) -> int:
        """The sequence its session begins with."""
        return self.known.events[0].sequence

    @property
    def opened(self) -> Recorded:
        """What says what the session is made from: its opening, or the latest move."""
        return self.made[-1]

    @property
    def made(self) -> Sequence[Recorded]:
        """What said what it is made from: every move, or its opening where there was none."""
        said = self.known.events
        moves = [each for each in said if isinstance(each.event, BlueprintMoved)]
        return moves or [next(each for each in said if isinstance(each.event, SessionOpened))]

    @property
    def running(self) -> Recorded:
        """What said by which profile and model it runs: its opening, or the latest switch."""
        said = (each for each in reversed(self.known.events) if isinstance(each.event, _RUNNING))
        return next(said)

    @property
    def entered(self) -> Recorded | None:
        """What entered the phase it stood in."""
        said = reversed(self.known.events)
        return next((each for each in said if isinstance(each.event, PhaseEntered)), None)

    @property
    def asked(self) -> Fate:
        """The turn it was made for."""
        fate = self.fates.get(self.call.turn)
        if fate is None:
            raise Corrupt(f"turn {self.call.turn}", "nothing began it")
        return fate

    @property
    def brought(self) -> TurnSubmitted | TurnQueued:
        """What that turn brought along."""
        event = self.asked.begun.event
        if isinstance(event, TurnSubmitted | TurnQueued):
            return event
        raise Corrupt(f"turn {self.call.turn}", "nothing submitted it")

    def knew(self, recorded: Recorded) -> bool:
        """Tell whether an event, of its session or of the library, lay before the call."""
        if recorded.envelope.type in LIBRARY_KINDS:
            return recorded.envelope.time <= self.manifest.at
        if recorded.sequence > self.known.end:
            return False
        if recorded.session == self.known.session:
            return True
        # A copy stands in a fork where its original stood
        twin = self.known.at(recorded.sequence)
        return twin is not None and not _ids(twin).isdisjoint(_ids(recorded))


def side_of(record: Known, call: str, library: Iterable[Recorded] = ()) -> Side:
    """Give one call of a session by its events; refuses one that was never made."""
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
    """Give what an event is known by: a fork's copy also by the id of the original."""
    envelope = recorded.envelope
    return frozenset(filter(None, (envelope.id, envelope.copyof)))
