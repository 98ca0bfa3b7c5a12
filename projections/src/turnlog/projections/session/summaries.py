"""Summaries: words of a model that stand in a view of the history in place of its older turns.

A state keeps the latest of each view, each with the one it took in, so that undoing one leaves the
window that was there before. Which turns a summary stands for is kept turn by turn, as ranges: one
that was left out as it was written, and is restored later, stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from turnlog.events.memory import TurnRange
from turnlog.projections.session.places import Said

MOST_KEPT: Final = 8
"""Summaries of a view that a state keeps; one that takes in a forgotten one cannot be undone."""

Turns = tuple[TurnRange, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """One that stands."""

    view: str
    said: Said
    """Where its words stand."""
    turns: Turns
    """What it stands for, in order."""
    phases: tuple[str, ...]
    """Phases those turns were said in."""
    former: int | None
    """Sequence of the one that it took in."""

    @property
    def sequence(self) -> int:
        """Sequence of the event that holds it, by which it is called."""
        return self.said.sequence


@dataclass(frozen=True)
class Summing:
    """One that is to be made before the open turn goes on."""

    view: str
    turns: Turns
    """What it is to stand for, the turns of the former one included."""
    former: int | None
    """Sequence of the one that it takes in."""
    characters: int
    """Length of what it is made from."""
    withdrawn: bool = False
    """Whether one of its turns was taken back meanwhile, so that it must not stand."""


def holds(turns: Turns, turn: int) -> bool:
    """Tell whether a turn is among these."""
    return any(each.first <= turn <= each.last for each in turns)


def ranges(turns: Iterable[int]) -> Turns:
    """Join numbers of turns to ranges."""
    joined: list[TurnRange] = []
    for turn in sorted(set(turns)):
        if joined and joined[-1].last + 1 == turn:
            joined[-1] = TurnRange(first=joined[-1].first, last=turn)
        else:
            joined.append(TurnRange(first=turn, last=turn))
    return tuple(joined)


def numbers(turns: Turns) -> Iterable[int]:
    """Give every turn of these ranges."""
    return (turn for each in turns for turn in range(each.first, each.last + 1))


def kept(summaries: Sequence[Summary], made: Summary) -> tuple[Summary, ...]:
    """Add one; the oldest of its view is forgotten where there are too many."""
    own = [each for each in summaries if each.view == made.view]
    gone = own[0] if len(own) == MOST_KEPT else None
    return (*(each for each in summaries if each is not gone), made)
