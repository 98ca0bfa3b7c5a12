from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnlog.events.envelope import RecordedEvent
from turnlog.events.manifest import HistorySource, PromptPart
from turnlog.projections.audit.sides import CallSnapshot


def find_condensing_events(own: PromptPart, other: PromptPart, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the events of other turns that condensed a run, or that ended its condensing.

    A view condenses a turn because of later turns: those that ask the same, or say the same. If one
    of them is excluded or changed, the turn is included word for word again.
    """
    fates = [fate for turn in _list_condensing_turns(own) if (fate := side.timelines.get(turn))]
    yield from (fate.inclusion_event for fate in fates if fate.inclusion_event)
    fates = [fate for turn in _list_condensing_turns(other) if (fate := side.timelines.get(turn))]
    yield from (each for fate in fates for each in (fate.marked, fate.redacted) if each)


def _list_condensing_turns(part: PromptPart) -> Iterable[int]:
    """Return the turns by which a run is condensed; empty if it is included word for word."""
    match part.source:
        case HistorySource(condensed="repeats-1", first=first, last=last):
            return range(first, last + 1)
        case HistorySource(condensed="duplicates-1", later=int() as later):
            return (later,)
        case _:
            return ()
