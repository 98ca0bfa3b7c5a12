"""Decides library commands: returns the events of a command, or raises `Refused`.

`Refused` names the field at fault; a command that changes nothing gives no events. An import takes
all rows or none. A row with a segment's number is about that segment. A row without one is about
the segment that has the same text in the same place, or about a new one; importing the same rows
again therefore changes nothing. Segments that the rows do not mention stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from turnlog.events.errors import Refused
from turnlog.events.library import (
    LibraryEvent,
    NewSegment,
    NewVersion,
    SegmentsActivated,
    SegmentsAdded,
    SegmentsDeactivated,
    SegmentsEdited,
    SegmentText,
)
from turnlog.projections.library.authored import FIRST, Authored, flaws
from turnlog.projections.library.shelf import Segment, Shelf, begun, saying

TOGETHER: Final = 50
"""Maximum number of segments in one event; a reader that looks for news loads the last event whole.
"""
Item = TypeVar("Item")
Same = tuple[str, str | None, str | None, SegmentText]
"""What identifies a segment in a row without a number."""


def imported(shelf: Shelf, rows: Sequence[Authored]) -> tuple[LibraryEvent, ...]:
    """Decide an import; raise `Refused` naming `segments.<row>.<field>`."""
    deciding = _Deciding(shelf, max((*shelf.segments, *(row.id or 0 for row in rows)), default=0))
    for number, row in enumerate(rows):
        _check(number, row)
    # Rows with a number come first; the others may then use the remaining segments.
    for number, row in sorted(enumerate(rows), key=lambda numbered: numbered[1].id is None):
        deciding.take(number, row)
    return tuple(deciding.events())


def _check(number: int, row: Authored) -> None:
    for flaw in flaws(row):
        raise _refused(number, flaw.field, flaw.what, flaw.fix)
    if row.id is None and row.variant != FIRST:
        what = "a variant needs the number of the segment it is of"
        raise _refused(number, "id", what, "give the number, the same for all its variants")


def _refused(number: int, name: str, what: str, fix: str, code: str = "invalid") -> Refused:
    return Refused(code, what, field=f"segments.{number}.{name}", fix=fix)


@dataclass(slots=True)
class _Deciding:
    shelf: Shelf
    last: int
    """The highest number in use."""
    touched: dict[int, Segment] = field(default_factory=dict[int, Segment])
    """Changed segments, as they will be."""
    wanted: dict[tuple[int, str], bool] = field(default_factory=dict[tuple[int, str], bool])
    """Whether a variant is to be switched on, by segment and variant."""
    added: list[NewSegment] = field(default_factory=list[NewSegment])
    edited: list[NewVersion] = field(default_factory=list[NewVersion])
    same: dict[Same, list[int]] = field(default_factory=dict[Same, list[int]])
    """Segments that a row without a number may be about."""

    def __post_init__(self) -> None:
        for segment in self.shelf.segments.values():
            if FIRST in segment.latest:
                text = segment.latest[FIRST].text
                place = (segment.scope, segment.ref, segment.locale, text)
                self.same.setdefault(place, []).append(segment.id)

    def take(self, number: int, row: Authored) -> None:
        """Apply one more row."""
        segment = self._segment(row)
        if segment is None:
            self._add(row)
            return
        if (segment.scope, segment.ref, segment.locale) != (row.scope, row.ref, row.locale):
            what = f"segment {segment.id} is of {'/'.join(filter(None, _place(segment)))}"
            fix = "give another number, or none"
            raise _refused(number, "id", what, fix, "segment-taken")
        if (segment.id, row.variant) in self.wanted:
            what = f"variant {row.variant} of segment {segment.id} stands in an earlier row"
            raise _refused(number, "id", what, "take one of them out")
        self._edit(segment, row)

    def _segment(self, row: Authored) -> Segment | None:
        if row.id is not None:
            return self.touched.get(row.id) or self.shelf.segments.get(row.id)
        found = self.same.get((row.scope, row.ref, row.locale, row.text), [])
        free = [each for each in found if (each, FIRST) not in self.wanted]
        return self.shelf.segments[free[0]] if free else None

    def _add(self, row: Authored) -> None:
        if row.id is None:
            self.last += 1
        new = NewSegment(
            id=self.last if row.id is None else row.id,
            scope=row.scope,
            ref=row.ref,
            locale=row.locale,
            variant=row.variant,
            active=row.active,
            text=row.text,
        )
        self.added.append(new)
        self.touched[new.id] = begun(new)
        self.wanted[new.id, row.variant] = row.active

    def _edit(self, segment: Segment, row: Authored) -> None:
        before = segment.latest.get(row.variant)
        self.wanted[segment.id, row.variant] = row.active
        if before is None or before.text != row.text:
            version = segment.versions[-1].version + 1
            new = NewVersion(id=segment.id, version=version, variant=row.variant, text=row.text)
            self.edited.append(new)
            segment = saying(segment, new)
        self.touched[segment.id] = segment

    def events(self) -> Iterator[LibraryEvent]:
        """Yield the events of the applied rows."""
        for added in _together(self.added):
            yield SegmentsAdded(segments=added)
        for edited in _together(self.edited):
            yield SegmentsEdited(versions=edited)
        switched: defaultdict[tuple[bool, str], list[int]] = defaultdict(list)
        for (number, variant), on in self.wanted.items():
            if (variant not in self.touched[number].off) != on:
                switched[on, variant].append(number)
        for (on, variant), numbers in switched.items():
            kind = SegmentsActivated if on else SegmentsDeactivated
            for some in _together(numbers):
                yield kind(segments=some, variant=variant)


def _together(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    for start in range(0, len(items), TOGETHER):
        yield tuple(items[start : start + TOGETHER])


def _place(segment: Segment) -> tuple[str, str | None, str | None]:
    return segment.scope, segment.ref, segment.locale
