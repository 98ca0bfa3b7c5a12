"""Summaries of older turns, and ranges of turn numbers.

A summary is text by a model that replaces older turns in one view of the history. The state keeps
the latest summaries of each view, each with the sequence of the summary it replaced, so that
undoing one restores the window from before. The turns of a summary are recorded as ranges. A turn
that was excluded when the summary was written, and is restored later, appears beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.model.memory_events import TurnRange
from turnlog.projections.session.text_refs import TextRef

MAX_SUMMARIES_PER_VIEW: Final = 8
"""Summaries kept for one view. A summary whose predecessor was dropped cannot be undone."""

TurnRanges = tuple[TurnRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySummary:
    """A summary in force."""

    view: str
    said: TextRef
    """Reference to its text."""
    turns: TurnRanges
    """The turns it covers, in order."""
    phases: tuple[str, ...]
    """Phases that its turns belong to."""
    former: int | None
    """Sequence of the summary that it absorbed."""
    characters: int = 0
    """Length of the turns it covers, in code points."""

    @property
    def sequence(self) -> int:
        """Sequence of the event that holds it, which identifies the summary."""
        return self.said.sequence


@dataclass(frozen=True, kw_only=True)
class PendingSummary:
    """A summary that the open turn is waiting for."""

    view: str
    turns: TurnRanges
    """The turns it is to cover, including those of the absorbed summary."""
    former: int | None
    """Sequence of the summary that it absorbs."""
    characters: int
    """Length of the source text in code points."""
    withdrawn: bool = False
    """Whether one of its turns was excluded or redacted meanwhile; the summary is then discarded.
    """


def contains_turn(turns: TurnRanges, turn: int) -> bool:
    return any(each.first <= turn <= each.last for each in turns)


def build_ranges(turns: Iterable[int]) -> TurnRanges:
    """Merge turn numbers into ranges."""
    joined: list[TurnRange] = []
    for turn in sorted(set(turns)):
        if joined and joined[-1].last + 1 == turn:
            joined[-1] = TurnRange(first=joined[-1].first, last=turn)
        else:
            joined.append(TurnRange(first=turn, last=turn))
    return tuple(joined)


def iterate_turns(turns: TurnRanges) -> Iterable[int]:
    return (turn for each in turns for turn in range(each.first, each.last + 1))


def add_summary(
    summaries: Sequence[HistorySummary], made: HistorySummary
) -> tuple[HistorySummary, ...]:
    """Add a summary, and drop the oldest one of its view when there are too many."""
    own = [each for each in summaries if each.view == made.view]
    oldest = own[0] if len(own) == MAX_SUMMARIES_PER_VIEW else None
    return (*(each for each in summaries if each is not oldest), made)
