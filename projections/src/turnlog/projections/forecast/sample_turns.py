"""The recorded turns of a session, each with all its events: what its next turns may be like.

A turn is a sample as it was recorded, with its calls, its tools and their results. One for which a
summary was made is none, because its summary answers a window that no other session has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.content import PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.memory_events import SummaryBegun
from turnlog.events.model.session_events import PhaseEntered, ProfileSwitched
from turnlog.events.model.tool_events import ToolReturned
from turnlog.events.model.turn_events import (
    ChoiceRecorded,
    TurnCompleted,
    TurnQueued,
    TurnSubmitted,
    find_turn_end,
)
from turnlog.projections.session.evolve import evolve
from turnlog.projections.session.state import SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTurn:
    """A settled turn, and where in its session it was submitted."""

    turn: int
    profile: str
    phase: str | None
    exchanges: int
    """Turns completed in the phase before it."""
    events: tuple[RecordedEvent, ...]
    """Its events in order, with the changes of phase and profile that followed it."""

    @property
    def characters(self) -> int:
        """Characters of its text, its reply and the results of its tools."""
        return sum(map(_count_characters, self.events))


def _count_characters(recorded: RecordedEvent) -> int:
    match recorded.event:
        case (
            TurnSubmitted(text=PlainText(text=text))
            | TurnQueued(text=PlainText(text=text))
            | TurnCompleted(text=PlainText(text=text))
            | ToolReturned(text=PlainText(text=text))
        ):
            return len(text)
        case _:
            return 0


@dataclass(slots=True, kw_only=True)
class _OpenSample:
    turn: int
    profile: str
    phase: str | None
    exchanges: int
    events: list[RecordedEvent] = field(default_factory=list[RecordedEvent])
    has_ended: bool = False
    is_summarised: bool = False

    def add_event(self, recorded: RecordedEvent) -> None:
        self.events.append(recorded)
        self.is_summarised |= isinstance(recorded.event, SummaryBegun)
        end = find_turn_end(recorded.event)
        self.has_ended |= end is not None and end.turn == self.turn


BETWEEN_TURNS: Final = (PhaseEntered, ProfileSwitched, ChoiceRecorded)
"""Events that belong to the turn before them, unless one is open."""


def list_sample_turns(
    events: Iterable[RecordedEvent], state: SessionState | None = None
) -> tuple[SampleTurn, ...]:
    """Return the settled turns of a session, oldest first; `state` is that before the events."""
    samples = dict[int, _OpenSample]()
    latest = 0
    for recorded in events:
        event = recorded.event
        if isinstance(event, TurnSubmitted | TurnQueued) and state is not None:
            samples[event.turn] = _OpenSample(
                turn=event.turn,
                profile=state.profile,
                phase=state.phase,
                exchanges=state.exchanges,
            )
        opened = state.open.turn if state and state.open else latest
        sample = samples.get(getattr(event, "turn", None) or opened)
        if sample and (not sample.has_ended or isinstance(event, BETWEEN_TURNS)):
            sample.add_event(recorded)
            latest = sample.turn
        state = evolve(state, recorded)
    return tuple(
        SampleTurn(
            turn=sample.turn,
            profile=sample.profile,
            phase=sample.phase,
            exchanges=sample.exchanges,
            events=tuple(sample.events),
        )
        for sample in samples.values()
        if sample.has_ended and not sample.is_summarised
    )
