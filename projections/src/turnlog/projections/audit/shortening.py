"""Shortening: what made a view tell turns in short, or word for word again.

By the word of a view it is other turns that do: the last one that asks the same, a later one that
says the same. One of them that is gone, or says something else, undoes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnlog.events.envelope import Recorded
from turnlog.events.manifest import FromTurns, Part
from turnlog.projections.audit.sides import Side


def shortening(mine: Part, other: Part, side: Side) -> Iterator[Recorded]:
    """Give the events of a call's other turns that a run is told otherwise by than in another."""
    fates = [fate for turn in _turns(mine) if (fate := side.fates.get(turn))]
    yield from (fate.since for fate in fates if fate.since)
    fates = [fate for turn in _turns(other) if (fate := side.fates.get(turn))]
    yield from (each for fate in fates for each in (fate.marked, fate.redacted) if each)


def _turns(part: Part) -> Iterable[int]:
    """Give the turns that a run is told in short by; none where it stands word for word."""
    match part.source:
        case FromTurns(condensed="repeats-1", first=first, last=last):
            return range(first, last + 1)
        case FromTurns(condensed="duplicates-1", later=int() as later):
            return (later,)
        case _:
            return ()
