"""Drawing: what a session's calls were given of a segment at any time, and what changed that.

The events of the library are followed again, for one segment. Which of its variants a session is
given follows from the session's name alone, so what another session would have been given at the
same time can be told too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

from turnlog.events.envelope import Recorded
from turnlog.events.kinds import Unknown
from turnlog.events.library import (
    LibraryEvent,
    SegmentsActivated,
    SegmentsAdded,
    SegmentsDeactivated,
    SegmentsEdited,
)
from turnlog.projections.audit.sides import Side
from turnlog.projections.library.choosing import given
from turnlog.projections.library.shelf import Segment, begun, saying, switched

Step = tuple[Recorded, int | None]
"""An event of the library, and the version that a session was given from then on."""


def drawn_by(side: Side) -> str:
    """Give the name by which variants are drawn for a session."""
    return side.state.drawn or side.state.session


def version_at(number: int, name: str, at: str, side: Side) -> int | None:
    """Give the version of a segment that calls of a name were given at a time."""
    steps = takewhile(lambda step: step[0].envelope.time <= at, _steps(number, name, side))
    return next((version for _, version in reversed(tuple(steps))), None)


def turned(number: int, one: Side, other: Side) -> Recorded | None:
    """Give the last event between two calls by which the later was given something else of it."""
    early, late = in_time(one, other)
    found, before = None, None
    for recorded, version in _steps(number, drawn_by(late), late):
        at = recorded.envelope.time
        if version != before and early.manifest.at < at <= late.manifest.at:
            found = recorded
        before = version
    return found


def in_time(one: Side, other: Side) -> tuple[Side, Side]:
    """Give two calls in the order in which they were assembled."""
    return (one, other) if one.manifest.at <= other.manifest.at else (other, one)


def _steps(number: int, name: str, side: Side) -> Iterator[Step]:
    segment: Segment | None = None
    for edit in side.edits:
        segment = _after(segment, edit.event, number)
        version = given(segment, name) if segment else None
        yield edit.recorded, version.version if version else None


def _after(segment: Segment | None, event: LibraryEvent | Unknown, number: int) -> Segment | None:
    match event:
        case SegmentsAdded(segments=added):
            return next((begun(new) for new in added if new.id == number), segment)
        case SegmentsEdited(versions=versions) if segment:
            for new in versions:
                segment = saying(segment, new) if new.id == number else segment
            return segment
        case SegmentsDeactivated(segments=ids, variant=variant) if segment and number in ids:
            return switched(segment, variant, on=False)
        case SegmentsActivated(segments=ids, variant=variant) if segment and number in ids:
            return switched(segment, variant, on=True)
        case _:
            return segment
