"""Diff attribution: the events that one call knew about a prompt part and the other did not.

The events behind a text follow from its source: a turn's timeline, the snapshot that pinned a file,
the event that set a blueprint value, the summary that stands in for older turns. An event that both
calls knew explains no difference; one that only one of them knew does.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.events.envelope import Recorded
from turnlog.events.manifest import FromEvent, FromTurns
from turnlog.events.memory import MemoryPurged, SummaryUndone
from turnlog.projections.audit.entries import Entry
from turnlog.projections.audit.sides import Side
from turnlog.projections.audit.tombstones import taking_all
from turnlog.projections.blueprint.components import HISTORY
from turnlog.projections.window.history import SUMMARISED


def is_recap(entry: Entry) -> bool:
    """Return whether an entry is a summary of older turns."""
    return entry.turn is None and entry.part.layer == HISTORY


def behind_recap(mine: Entry | None, other: Entry | None, side: Side) -> Iterator[Recorded]:
    """Yield the event that made an included summary, and what ended the other call's summary."""
    if mine and mine.stands and isinstance(mine.part.source, FromEvent):
        made = side.known.at(mine.part.source.sequence)
        yield from (made,) if made else ()
    if other and other.stands and isinstance(other.part.source, FromEvent):
        yield from _ended(other.part.source.sequence, side)


def told_again(other: Entry, theirs: Side, side: Side) -> Iterator[Recorded]:
    """Yield what ended the summary that replaced a turn in the other call."""
    run = other.part.source
    if isinstance(run, FromTurns) and other.part.rule == SUMMARISED:
        yield from _ended(taking_all(run, SUMMARISED, theirs).sequence, side)


def _ended(summary: int, side: Side) -> Iterator[Recorded]:
    for recorded in side.known.events:
        match recorded.event:
            case SummaryUndone(sequence=sequence) if sequence == summary:
                yield recorded
            case MemoryPurged() if recorded.sequence > summary:
                yield recorded
            case _:
                pass
