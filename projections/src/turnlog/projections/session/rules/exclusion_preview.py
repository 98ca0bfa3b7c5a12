"""What excluding a turn would undo, before it is done.

A summary covers all its turns, so those that cover the excluded turn are undone. The windows then
show their other turns again, until a model summarises them without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from turnlog.events.model.memory_events import SummaryUndone
from turnlog.projections.session.commands import ExcludeTurn
from turnlog.projections.session.rules.client_rules import set_turn_exclusion
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_summaries import (
    HistorySummary,
    TurnRanges,
    build_ranges,
    iterate_turns,
)


@dataclass(frozen=True, slots=True)
class ExclusionPreview:
    """The summaries that excluding a turn undoes, and the turns that they leave uncovered."""

    undone: tuple[HistorySummary, ...]
    """The latest first, as they are undone."""
    uncovered: dict[str, TurnRanges]
    """By view: the turns that no summary covers any more, without the excluded turn."""


def preview_exclusion(state: SessionState, turn: int) -> ExclusionPreview:
    """Decide the exclusion of a turn without recording it; raise `Refused` as the exclusion."""
    events = set_turn_exclusion(state, ExcludeTurn(turn))
    gone = {event.sequence for event in events if isinstance(event, SummaryUndone)}
    undone = tuple(each for each in reversed(state.summaries) if each.sequence in gone)
    left = [each for each in state.summaries if each.sequence not in gone]
    uncovered = {
        view: build_ranges(_collect_turns(undone, view) - _collect_turns(left, view) - {turn})
        for view in dict.fromkeys(each.view for each in undone)
    }
    return ExclusionPreview(undone, uncovered)


def _collect_turns(summaries: Iterable[HistorySummary], view: str) -> set[int]:
    own = (each for each in summaries if each.view == view)
    return {turn for each in own for turn in iterate_turns(each.turns)}
