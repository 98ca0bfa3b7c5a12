"""Segment variants: which version of a segment a session is given, and which edits changed that.

The library's events are replayed for one segment. The variant follows from the session's name
alone, so it can also be computed what another session would have been given at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.segment_events import (
    SegmentEvent,
    SegmentsActivated,
    SegmentsAdded,
    SegmentsDeactivated,
    SegmentsEdited,
)
from turnlog.events.registry import UnknownEvent
from turnlog.projections.audit.explain.call_snapshot import CallSnapshot
from turnlog.projections.library.segment_library import (
    LibrarySegment,
    SegmentVersion,
    append_version,
    create_segment,
    set_variants_active,
)
from turnlog.projections.library.segment_selection import select_variant


@dataclass(frozen=True, slots=True)
class VariantStep:
    """A library event, and the version of a segment that a session gets from then on."""

    recorded: RecordedEvent
    version: int | None
    """The version that calls get; None if they get none."""
    latest_version: int | None
    """The same, or the latest version of the variant given last if that was deactivated."""


def get_variant_key(side: CallSnapshot) -> str:
    """Return the name from which a session's variants are drawn."""
    return side.state.drawn or side.state.session


def find_version_at(number: int, name: str, at: str, side: CallSnapshot) -> int | None:
    """Return the version of a segment that a session of this name was given at a time."""
    return _select_version(at, _iterate_steps(number, name, side))


def find_version_change(
    number: int, one: CallSnapshot, other: CallSnapshot
) -> RecordedEvent | None:
    """Return the last event between two calls by which the later one was given something else.

    If both were given the segment, it is the edit of its text; if one was given nothing, it is the
    event that added or removed it.
    """
    early, late = sort_by_time(one, other)
    steps = tuple(_iterate_steps(number, get_variant_key(late), late))
    both = None not in (_select_version(each.manifest.at, steps) for each in (early, late))
    found: RecordedEvent | None = None
    before: int | None = None if both else 0
    for step in steps:
        now = step.latest_version if both else int(step.version is not None)
        if now != before and early.manifest.at < step.recorded.envelope.time <= late.manifest.at:
            found = step.recorded
        before = now
    return found


def sort_by_time(one: CallSnapshot, other: CallSnapshot) -> tuple[CallSnapshot, CallSnapshot]:
    """Return two calls in the order in which they were assembled."""
    return (one, other) if one.manifest.at <= other.manifest.at else (other, one)


def _select_version(at: str, steps: Iterable[VariantStep]) -> int | None:
    before = takewhile(lambda step: step.recorded.envelope.time <= at, steps)
    return next((step.version for step in reversed(tuple(before))), None)


def _iterate_steps(number: int, name: str, side: CallSnapshot) -> Iterator[VariantStep]:
    segment: LibrarySegment | None = None
    last: SegmentVersion | None = None
    for edit in side.edits:
        segment = _apply_edit(segment, edit.event, number)
        now = select_variant(segment, name) if segment else None
        last = now or (segment.latest_versions[last.variant] if segment and last else None)
        yield VariantStep(
            edit.recorded, now.version if now else None, last.version if last else None
        )


def _apply_edit(
    segment: LibrarySegment | None, event: SegmentEvent | UnknownEvent, number: int
) -> LibrarySegment | None:
    match event:
        case SegmentsAdded(segments=added):
            return next((create_segment(new) for new in added if new.id == number), segment)
        case SegmentsEdited(versions=versions) if segment:
            for new in versions:
                segment = append_version(segment, new) if new.id == number else segment
            return segment
        case SegmentsDeactivated(segments=ids, variant=variant) if segment and number in ids:
            return set_variants_active(segment, variant, active=False)
        case SegmentsActivated(segments=ids, variant=variant) if segment and number in ids:
            return set_variants_active(segment, variant, active=True)
        case _:
            return segment
