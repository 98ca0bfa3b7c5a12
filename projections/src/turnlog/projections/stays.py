"""Stays: the times a session spent in its phases, and the turns that are of each.

Where phases are kept apart, a stay is all there is to a phase: what its prompts could tell of, what
was carried into it, and what stayed hidden. So one can be read and replayed without the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from turnlog.events.content import Content
from turnlog.events.envelope import Recorded
from turnlog.events.errors import Refused
from turnlog.events.phase import PhaseEntered
from turnlog.events.session import ProfileSwitched
from turnlog.events.turn import (
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnSubmitted,
)


@dataclass(frozen=True, slots=True)
class Stay:
    """A time in one phase."""

    phase: str
    before: str | None
    """The phase that was left for it."""
    signal: str | None
    """What led to it."""
    at: str
    """When it began."""
    first: int
    """The event that entered the phase, or the switch to its profile just before."""
    last: int
    """The latest event before the next phase."""
    carried: Content | None
    """What its prompts are told of the phase before."""
    shared: tuple[str, ...]
    """Phases whose turns it may see, where phases are kept apart."""
    hidden: tuple[str, ...]
    """Phases the session had been in that it may not see."""
    turns: tuple[int, ...] = ()
    """The turns that are of it, by their numbers."""

    def holds(self, recorded: Recorded) -> bool:
        """Tell whether something happened in it."""
        return self.first <= recorded.sequence <= self.last


def stays(events: Iterable[Recorded]) -> tuple[Stay, ...]:
    """Give the stays of a session's events, in order; none where it has no phases."""
    found: list[Stay] = []
    within: dict[int, int] = {}
    switched = 0
    for recorded in events:
        match recorded.event:
            case ProfileSwitched(reason="phase"):
                switched = recorded.sequence
                continue
            case PhaseEntered() as entered:
                found.append(_begun(recorded, entered, switched or recorded.sequence))
                switched = 0
            case (
                TurnSubmitted(turn=turn)
                | TurnQueued(turn=turn)
                | TurnReleased(turn=turn)
                | TurnCompleted(turn=turn)
                | TurnFailed(turn=turn)
                | TurnCancelled(turn=turn)
            ) if found:
                within[turn] = len(found) - 1
            case _:
                pass
        if found:
            found[-1] = replace(found[-1], last=recorded.sequence)
    turns: list[list[int]] = [[] for _ in found]
    for turn in sorted(within):
        turns[within[turn]].append(turn)
    return tuple(replace(stay, turns=tuple(own)) for stay, own in zip(found, turns, strict=True))


def _begun(recorded: Recorded, entered: PhaseEntered, first: int) -> Stay:
    return Stay(
        phase=entered.phase,
        before=entered.before,
        signal=entered.signal,
        at=recorded.envelope.time,
        first=first,
        last=recorded.sequence,
        carried=entered.carried,
        shared=entered.shared,
        hidden=entered.hidden,
    )


def in_phase(found: Sequence[Stay], phase: str) -> tuple[Stay, ...]:
    """Give the stays in one phase; refuses one that the session was never in."""
    there = tuple(stay for stay in found if stay.phase == phase)
    if not there:
        been = ", ".join(dict.fromkeys(stay.phase for stay in found))
        detail = f"the session was never in a phase {phase[:80]!r}"
        fix = f"one of: {been}" if been else "leave it out: the session has no phases"
        raise Refused("unknown-stay", detail, field="phase", fix=fix)
    return there
