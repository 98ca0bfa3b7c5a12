"""Sides: a call, with everything its session knew when its prompt was fixed.

Why a prompt is what it is follows from a side; why two prompts differ follows from two. Events of
the library stand beside those of the session: they are no part of its record, and name the edit
behind a segment's text where they are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.call import AttemptEnded, ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.kinds import Unknown
from turnlog.events.library import LIBRARY_KINDS, LibraryEvent, understood
from turnlog.events.manifest import Manifest
from turnlog.events.phase import PhaseEntered
from turnlog.events.session import BlueprintMoved, ProfileSwitched, SessionOpened
from turnlog.events.turn import TurnQueued, TurnSubmitted
from turnlog.projections.audit.fates import Fate, Fates, fates
from turnlog.projections.session.evolve import fold
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
    known: Sequence[Recorded]
    """The session's events up to the state that was assembled."""
    state: SessionState
    fates: Fates
    ids: frozenset[str]
    """Ids of the events it knew, and of those they are copies of."""
    edits: Sequence[Edit]
    """What became of the library, before the call and after it."""
    tried: Mapping[int, AttemptEnded]
    """How every attempt at the call ended, by the latest word there is of it."""

    @property
    def manifest(self) -> Manifest:
        """The record of its parts."""
        return self.call.manifest

    @property
    def opened(self) -> Recorded:
        """What says what the session is made from: its opening, or the latest move."""
        return self.made[-1]

    @property
    def made(self) -> Sequence[Recorded]:
        """What said what it is made from: every move, or its opening where there was none."""
        moves = [each for each in self.known if isinstance(each.event, BlueprintMoved)]
        return moves or [next(each for each in self.known if isinstance(each.event, SessionOpened))]

    @property
    def running(self) -> Recorded:
        """What said by which profile and model it runs: its opening, or the latest switch."""
        said = (each for each in reversed(self.known) if isinstance(each.event, _RUNNING))
        return next(said)

    @property
    def entered(self) -> Recorded | None:
        """What entered the phase it stood in."""
        phases = (each for each in reversed(self.known) if isinstance(each.event, PhaseEntered))
        return next(phases, None)

    @property
    def asked(self) -> Fate:
        """The turn it was made for."""
        return self.fates[self.call.turn]

    @property
    def brought(self) -> TurnSubmitted | TurnQueued:
        """What that turn brought along."""
        event = self.asked.begun.event
        if isinstance(event, TurnSubmitted | TurnQueued):
            return event
        raise Corrupt(f"turn {self.call.turn}", "nothing submitted it")

    def at(self, sequence: int) -> Recorded | None:
        """Give the event of a sequence, where it was known."""
        place = sequence - self.known[0].sequence
        return self.known[place] if 0 <= place < len(self.known) else None

    def knew(self, recorded: Recorded) -> bool:
        """Tell whether an event, of its session or of the library, lay before the call."""
        if recorded.envelope.type in LIBRARY_KINDS:
            return recorded.envelope.time <= self.manifest.at
        return not self.ids.isdisjoint(_ids(recorded))


def side_of(events: Sequence[Recorded], call: str, library: Iterable[Recorded] = ()) -> Side:
    """Give one call of a session by all its events; refuses one that was never made."""
    made = [each for each in events if _fixed(each, call)]
    if not made or not isinstance(made[-1].event, ContextAssembled):
        raise Refused("unknown-call", f"there is no call {call[:80]!r}", field="call")
    recorded, fixed = made[-1], made[-1].event
    known = [each for each in events if each.sequence <= fixed.manifest.sequence]
    state = fold(known)
    if state is None:
        raise Corrupt("event 1", "it does not open a session")
    ids = frozenset(one for each in known for one in _ids(each))
    edits = tuple(Edit(each, understood(each)) for each in library)
    tried = {
        each.event.attempt: each.event
        for each in events
        if isinstance(each.event, AttemptEnded) and each.event.call == call
    }
    return Side(recorded, fixed, known, state, fates(known), ids, edits, tried)


def _fixed(recorded: Recorded, call: str) -> bool:
    return isinstance(recorded.event, ContextAssembled) and recorded.event.call == call


def _ids(recorded: Recorded) -> tuple[str, ...]:
    """Give what an event is known by: a fork's copy also by the id of the original."""
    envelope = recorded.envelope
    return (envelope.id, envelope.copyof) if envelope.copyof else (envelope.id,)
