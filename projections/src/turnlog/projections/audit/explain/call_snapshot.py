"""Call snapshots: a recorded call with everything its session knew when the prompt was fixed.

One snapshot explains why a prompt is what it is; two explain why two prompts differ. Events of the
library are no part of the session's record. Where they are given, they name the edit behind a
segment's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.codec import decode_segment_event
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import Manifest
from turnlog.events.model.segment_events import SegmentEvent
from turnlog.events.model.session_events import (
    BlueprintMoved,
    PhaseEntered,
    ProfileSwitched,
    SessionOpened,
)
from turnlog.events.model.turn_events import TurnQueued, TurnSubmitted
from turnlog.events.registry import LIBRARY_EVENT_TYPES, UnknownEvent
from turnlog.projections.audit.explain.turn_milestones import (
    MilestonesByTurn,
    TurnMilestones,
    build_milestones,
)
from turnlog.projections.audit.record.event_queries import find_call
from turnlog.projections.audit.record.partial_log import MissingEvents, PartialLog
from turnlog.projections.session.state import SessionState

_PROFILE_TYPES: Final = (ProfileSwitched, SessionOpened)


@dataclass(frozen=True, slots=True)
class LibraryEdit:
    """An event of the library, and its decoded payload."""

    recorded: RecordedEvent
    event: SegmentEvent | UnknownEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSnapshot:
    """A call, and what its session knew when the call was made."""

    recorded: RecordedEvent
    """The event that fixed the prompt."""
    call: ContextAssembled
    log: PartialLog
    """Events of the session, including those after the call."""
    log_before_call: PartialLog
    """The events up to the state that was assembled."""
    state: SessionState
    turns: MilestonesByTurn
    edits: Sequence[LibraryEdit]
    """All edits of the library, before and after the call."""

    @property
    def manifest(self) -> Manifest:
        """The manifest of the call."""
        return self.call.manifest

    @property
    def first_sequence(self) -> int:
        """Sequence of the session's first event."""
        return self.log_before_call.events[0].sequence

    @property
    def definition_event(self) -> RecordedEvent:
        """The event that defines the session: its opening, or the latest blueprint move."""
        return self.definition_events[-1]

    @property
    def definition_events(self) -> Sequence[RecordedEvent]:
        """The events that defined the session: all blueprint moves, or else the opening."""
        events = self.log_before_call.events
        moves = [each for each in events if isinstance(each.event, BlueprintMoved)]
        return moves or [next(each for each in events if isinstance(each.event, SessionOpened))]

    @property
    def profile_event(self) -> RecordedEvent:
        """The event that set profile and model: the opening, or the latest switch."""
        profile_events = (
            each
            for each in reversed(self.log_before_call.events)
            if isinstance(each.event, _PROFILE_TYPES)
        )
        return next(profile_events)

    @property
    def phase_event(self) -> RecordedEvent | None:
        """The event that entered the phase of the call; None without phases."""
        reversed_events = reversed(self.log_before_call.events)
        return next(
            (each for each in reversed_events if isinstance(each.event, PhaseEntered)), None
        )

    @property
    def milestones(self) -> TurnMilestones:
        """The milestones of the turn that the call is for."""
        milestones = self.turns.get(self.call.turn)
        if milestones is None:
            raise Corrupt(f"turn {self.call.turn}", "nothing began it")
        return milestones

    @property
    def submission(self) -> TurnSubmitted | TurnQueued:
        """The submission of that turn, with its inputs."""
        event = self.milestones.begun.event
        if isinstance(event, TurnSubmitted | TurnQueued):
            return event
        raise Corrupt(f"turn {self.call.turn}", "nothing submitted it")

    def has_seen(self, recorded: RecordedEvent) -> bool:
        """Return whether an event of the session or of the library came before the call."""
        if recorded.envelope.type in LIBRARY_EVENT_TYPES:
            return recorded.envelope.time <= self.manifest.at
        if recorded.sequence > self.log_before_call.end:
            return False
        if recorded.session == self.log_before_call.session:
            return True
        # A fork has a copy of the event at the sequence of the original.
        copied_event = self.log_before_call.find_event(recorded.sequence)
        return copied_event is not None and not _list_event_ids(copied_event).isdisjoint(
            _list_event_ids(recorded)
        )


def build_call_snapshot(
    log: PartialLog, call: str, library: Iterable[RecordedEvent] = ()
) -> CallSnapshot:
    """Build the snapshot of one call; refuse a call that was never made."""
    recorded, fixed = _find_call_event(log, call)
    known = log.trim_after(fixed.manifest.sequence)
    state = known.get_state()
    edits = tuple(LibraryEdit(each, decode_segment_event(each)) for each in library)
    return CallSnapshot(
        recorded=recorded,
        call=fixed,
        log=log,
        log_before_call=known,
        state=state,
        turns=build_milestones(known, state.submitted),
        edits=edits,
    )


def _find_call_event(log: PartialLog, call: str) -> tuple[RecordedEvent, ContextAssembled]:
    try:
        return find_call(log.events, call)
    except Refused:
        if log.is_complete:
            raise
        raise MissingEvents(log.session, range(1, log.end + 1)) from None


def _list_event_ids(recorded: RecordedEvent) -> frozenset[str]:
    """Return the ids of an event: its own, and for a fork's copy that of the original."""
    envelope = recorded.envelope
    return frozenset(filter(None, (envelope.id, envelope.copyof)))
