"""Recaps: the events behind a summary that stands in a prompt, or that stands in it no more."""

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
    """Tell whether an entry is what was summed up of older turns."""
    return entry.turn is None and entry.part.layer == HISTORY


def behind_recap(mine: Entry | None, other: Entry | None, side: Side) -> Iterator[Recorded]:
    """Give what put a summary where it stands, and what took away the one that stood elsewhere."""
    if mine and mine.stands and isinstance(mine.part.source, FromEvent):
        made = side.known.at(mine.part.source.sequence)
        yield from (made,) if made else ()
    if other and other.stands and isinstance(other.part.source, FromEvent):
        yield from _ended(other.part.source.sequence, side)


def told_again(other: Entry, theirs: Side, side: Side) -> Iterator[Recorded]:
    """Give what ended the summary that stood in place of a turn on the other side."""
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
