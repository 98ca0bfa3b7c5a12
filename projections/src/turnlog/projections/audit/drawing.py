"""Segment variants: which version of a segment a session is given, and which edits changed that.

The library's events are replayed for one segment. The variant follows from the session's name
alone, so it can also be computed what another session would have been given at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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
from turnlog.projections.library.shelf import Segment, Version, begun, saying, switched


@dataclass(frozen=True, slots=True)
class Step:
    """An event of the library, and the version of a segment that a session is given from then on.
    """

    recorded: Recorded
    given: int | None
    """The version that calls are given; None if they are given none."""
    said: int | None
    """The same, or the latest version of the variant given last if that was deactivated."""


def drawn_by(side: Side) -> str:
    """Return the name from which a session's variants are drawn."""
    return side.state.drawn or side.state.session


def version_at(number: int, name: str, at: str, side: Side) -> int | None:
    """Return the version of a segment that a session of this name was given at a time."""
    return _given_at(at, _steps(number, name, side))


def turned(number: int, one: Side, other: Side) -> Recorded | None:
    """Return the last event between two calls by which the later one was given something else.

    If both were given the segment, it is the edit of its text; if one was given nothing, it is the
    event that added or removed it.
    """
    early, late = in_time(one, other)
    steps = tuple(_steps(number, drawn_by(late), late))
    both = None not in (_given_at(each.manifest.at, steps) for each in (early, late))
    found: Recorded | None = None
    before: int | None = None if both else 0
    for step in steps:
        now = step.said if both else int(step.given is not None)
        if now != before and early.manifest.at < step.recorded.envelope.time <= late.manifest.at:
            found = step.recorded
        before = now
    return found


def in_time(one: Side, other: Side) -> tuple[Side, Side]:
    """Return two calls in the order in which they were assembled."""
    return (one, other) if one.manifest.at <= other.manifest.at else (other, one)


def _given_at(at: str, steps: Iterable[Step]) -> int | None:
    before = takewhile(lambda step: step.recorded.envelope.time <= at, steps)
    return next((step.given for step in reversed(tuple(before))), None)


def _steps(number: int, name: str, side: Side) -> Iterator[Step]:
    segment: Segment | None = None
    last: Version | None = None
    for edit in side.edits:
        segment = _after(segment, edit.event, number)
        now = given(segment, name) if segment else None
        last = now or (segment.latest[last.variant] if segment and last else None)
        yield Step(edit.recorded, now.version if now else None, last.version if last else None)


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
