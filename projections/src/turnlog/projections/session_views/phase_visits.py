"""Phase visits: the times a session spent in each phase, and the turns of each visit.

Where a blueprint keeps phases apart, a visit is complete by itself: it names what was carried into
the phase, which phases its prompts may see and which are hidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from turnlog.events.content import get_plain_text
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.session_events import PhaseEntered, ProfileSwitched
from turnlog.events.model.turn_events import TurnQueued, TurnReleased, TurnSubmitted, find_turn_end
from turnlog.projections.blueprint.sent_names import quote_sent_name


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitedPhase:
    """One visit of a session to a phase."""

    phase: str
    """The phase."""
    before: str | None
    """The previous phase."""
    signal: str | None
    """The signal that led to it."""
    at: str
    """When it began."""
    first: int
    """The event that entered it, or the profile switch just before."""
    last: int
    """Its latest event; `at` this sequence gives its final state and window."""
    carried: str | None
    """The text that its prompts are given about the previous phase."""
    shared: tuple[str, ...]
    """The phases whose turns are visible to it, where phases are isolated."""
    hidden: tuple[str, ...]
    """The earlier phases that are not visible to it."""
    turns: tuple[int, ...]
    """The turns that belong to it."""

    def has_event(self, recorded: RecordedEvent) -> bool:
        """Return whether an event happened during the visit."""
        return self.first <= recorded.sequence <= self.last


def list_phase_visits(events: Iterable[RecordedEvent]) -> tuple[VisitedPhase, ...]:
    """Return the phase visits of a session in order; empty for a session without phases."""
    found: list[VisitedPhase] = []
    within: dict[int, int] = {}
    ended: set[int] = set()
    switched = 0
    for recorded in events:
        match recorded.event:
            case ProfileSwitched(reason="phase"):
                switched = recorded.sequence
                continue
            case PhaseEntered() as entered:
                found.append(_start_visit(recorded, entered, switched or recorded.sequence))
                switched = 0
            case TurnSubmitted(turn=turn) | TurnQueued(turn=turn) | TurnReleased(turn=turn) if (
                found
            ):
                within[turn] = len(found) - 1
            case event:
                end = find_turn_end(event, ended)
                if end:
                    ended.add(end.turn)
                if end and found:
                    within[end.turn] = len(found) - 1
        if found:
            found[-1] = replace(found[-1], last=recorded.sequence)
    turns: list[list[int]] = [[] for _ in found]
    for turn in sorted(within):
        turns[within[turn]].append(turn)
    return tuple(replace(visit, turns=tuple(own)) for visit, own in zip(found, turns, strict=True))


def _start_visit(recorded: RecordedEvent, entered: PhaseEntered, first: int) -> VisitedPhase:
    return VisitedPhase(
        phase=entered.phase,
        before=entered.before,
        signal=entered.signal,
        at=recorded.envelope.time,
        first=first,
        last=recorded.sequence,
        carried=get_plain_text(entered.carried),
        shared=entered.shared,
        hidden=entered.hidden,
        turns=(),
    )


def filter_visits(visits: Sequence[VisitedPhase], phase: str) -> tuple[VisitedPhase, ...]:
    """Return the visits to one phase; refuse a phase that the session never entered."""
    found = tuple(visit for visit in visits if visit.phase == phase)
    if not found:
        entered = ", ".join(dict.fromkeys(visit.phase for visit in visits))
        detail = f"the session was never in a phase {quote_sent_name(phase)}"
        fix = f"one of: {entered}" if entered else "leave it out: the session has no phases"
        raise Refused("unknown-stay", detail, field="phase", fix=fix)
    return found
