"""Diff attribution: the events that one call knew about a prompt part and the other did not.

The events behind a text follow from its source: a turn's timeline, the snapshot that pinned a file,
the event that set a blueprint value, the summary that stands in for older turns. An event that both
calls knew explains no difference; one that only one of them knew does.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.events.envelope import RecordedEvent
from turnlog.events.manifest import EventTextSource, HistorySource
from turnlog.events.memory import MemoryPurged, SummaryUndone
from turnlog.projections.audit.entries import ManifestEntry
from turnlog.projections.audit.sides import CallSnapshot
from turnlog.projections.audit.tombstones import find_run_exclusion
from turnlog.projections.blueprint.components import HISTORY_COMPONENT
from turnlog.projections.window.history import SUMMARISED


def is_summary_entry(entry: ManifestEntry) -> bool:
    """Return whether an entry is a summary of older turns."""
    return entry.turn is None and entry.part.layer == HISTORY_COMPONENT


def find_summary_events(own: ManifestEntry | None, other: ManifestEntry | None, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield the event that made an included summary, and what ended the other call's summary."""
    if own and own.is_included and isinstance(own.part.source, EventTextSource):
        made = side.log_before_call.find_event(own.part.source.sequence)
        yield from (made,) if made else ()
    if other and other.is_included and isinstance(other.part.source, EventTextSource):
        yield from _iterate_summary_ends(other.part.source.sequence, side)


def find_summary_end(other: ManifestEntry, other_side: CallSnapshot, side: CallSnapshot) -> Iterator[RecordedEvent]:
    """Yield what ended the summary that replaced a turn in the other call."""
    run = other.part.source
    if isinstance(run, HistorySource) and other.part.rule == SUMMARISED:
        yield from _iterate_summary_ends(find_run_exclusion(run, SUMMARISED, other_side).sequence, side)


def _iterate_summary_ends(summary: int, side: CallSnapshot) -> Iterator[RecordedEvent]:
    for recorded in side.log_before_call.events:
        match recorded.event:
            case SummaryUndone(sequence=sequence) if sequence == summary:
                yield recorded
            case MemoryPurged() if recorded.sequence > summary:
                yield recorded
            case _:
                pass
