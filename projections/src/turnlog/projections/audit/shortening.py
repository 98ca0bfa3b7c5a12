from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnlog.events.envelope import Recorded
from turnlog.events.manifest import FromTurns, Part
from turnlog.projections.audit.sides import Side


def shortening(mine: Part, other: Part, side: Side) -> Iterator[Recorded]:
    """Yield the events of other turns that condensed a run, or that ended its condensing.

    A view condenses a turn because of later turns: those that ask the same, or say the same. If one
    of them is excluded or changed, the turn is included word for word again.
    """
    fates = [fate for turn in _turns(mine) if (fate := side.fates.get(turn))]
    yield from (fate.since for fate in fates if fate.since)
    fates = [fate for turn in _turns(other) if (fate := side.fates.get(turn))]
    yield from (each for fate in fates for each in (fate.marked, fate.redacted) if each)


def _turns(part: Part) -> Iterable[int]:
    """Return the turns by which a run is condensed; empty if it is included word for word."""
    match part.source:
        case FromTurns(condensed="repeats-1", first=first, last=last):
            return range(first, last + 1)
        case FromTurns(condensed="duplicates-1", later=int() as later):
            return (later,)
        case _:
            return ()
