"""Decides library commands: returns the events of a command, or raises `Refused`.

`Refused` names the field at fault; a command that changes nothing gives no events. An import takes
all rows or none. A row with a segment's number is about that segment. A row without one is about
the segment that has the same text in the same place, or about a new one; importing the same rows
again therefore changes nothing. Segments that the rows do not mention stay as they are. A row's
version number is kept if it is above every earlier one of the segment; otherwise the library counts
on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar, assert_never

from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.segment_events import (
    NewSegment,
    NewSegmentVersion,
    SegmentsActivated,
    SegmentsAdded,
    SegmentsDeactivated,
    SegmentsEdited,
    SegmentText,
)
from turnlog.events.registry import LibraryEvent
from turnlog.projections.blueprint.sent_names import format_sent_name, quote_sent_name
from turnlog.projections.library.sealed_texts import describe_text
from turnlog.projections.library.segment_inputs import (
    DEFAULT_VARIANT,
    AddSegment,
    EditSegment,
    ImportSegments,
    LibraryCommand,
    SegmentInput,
    SegmentInputFault,
    find_content_faults,
    find_name_faults,
    find_segment_faults,
    find_text_faults,
)
from turnlog.projections.library.segment_library import (
    LibrarySegment,
    SegmentLibrary,
    append_version,
    create_segment,
)

MAX_SEGMENTS_PER_EVENT: Final = 50
"""Maximum number of segments in one event; a reader that looks for news loads the last event whole.
"""

Item = TypeVar("Item")

SegmentIdentity = tuple[str, str | None, str | None, SegmentText]
"""What identifies a segment in a row without a number."""


def decide_import(
    library: SegmentLibrary, rows: Sequence[SegmentInput]
) -> tuple[LibraryEvent, ...]:
    """Decide an import; raise `Refused` naming `segments.<row>.<field>`."""
    deciding = _ImportDecision(
        library=library,
        last_number=max((*library.segments, *(row.id or 0 for row in rows)), default=0),
    )
    for number, row in enumerate(rows):
        _check_row(number, row)
    # Rows with a number come first; the others may then use the remaining segments.
    for number, row in sorted(enumerate(rows), key=lambda numbered: numbered[1].id is None):
        deciding.apply_row(number, row)
    return tuple(deciding.build_events())


def _check_row(number: int, row: SegmentInput) -> None:
    for flaw in find_segment_faults(row):
        raise _build_refusal(number, flaw.field, flaw.what, flaw.fix)
    if row.id is None and row.variant != DEFAULT_VARIANT:
        what = "a variant needs the number of its segment"
        raise _build_refusal(
            number, "id", what, "add the number, the same for all variants of the segment"
        )


def _build_refusal(number: int, name: str, what: str, fix: str, code: str = "invalid") -> Refused:
    return Refused(code, what, field=f"segments.{number}.{name}", fix=fix)


@dataclass(slots=True, kw_only=True)
class _ImportDecision:
    library: SegmentLibrary
    last_number: int
    """The highest number in use."""
    changed_segments: dict[int, LibrarySegment] = field(default_factory=dict[int, LibrarySegment])
    """Changed segments, as they will be."""
    active_by_variant: dict[tuple[int, str], bool] = field(
        default_factory=dict[tuple[int, str], bool]
    )
    """Whether a variant is to be switched on, by segment and variant."""
    new_segments: list[NewSegment] = field(default_factory=list[NewSegment])
    new_versions: list[NewSegmentVersion] = field(default_factory=list[NewSegmentVersion])
    numbers_by_identity: dict[SegmentIdentity, list[int]] = field(
        default_factory=dict[SegmentIdentity, list[int]]
    )
    """Segments that a row without a number may be about."""

    def __post_init__(self) -> None:
        for segment in self.library.segments.values():
            if DEFAULT_VARIANT in segment.latest_versions:
                text = describe_text(segment.latest_versions[DEFAULT_VARIANT].text)
                place = (segment.scope, segment.ref, segment.locale, text)
                self.numbers_by_identity.setdefault(place, []).append(segment.id)

    def apply_row(self, number: int, row: SegmentInput) -> None:
        """Apply one more row."""
        segment = self._find_segment(row)
        if segment is None:
            self._add_segment(row)
            return
        if (segment.scope, segment.ref, segment.locale) != (row.scope, row.ref, row.locale):
            names = map(format_sent_name, filter(None, _get_placement(segment)))
            what = f"the segment of this number is of {'/'.join(names)}"
            fix = "use another number, or none"
            raise _build_refusal(number=number, name="id", what=what, fix=fix, code="segment-taken")
        if (segment.id, row.variant) in self.active_by_variant:
            what = "this variant of the segment is in an earlier row too"
            raise _build_refusal(number, "id", what, "remove one of the two rows")
        self._edit_segment(segment, row)

    def _find_segment(self, row: SegmentInput) -> LibrarySegment | None:
        if row.id is not None:
            return self.changed_segments.get(row.id) or self.library.segments.get(row.id)
        found = self.numbers_by_identity.get((row.scope, row.ref, row.locale, row.text), [])
        free = [each for each in found if (each, DEFAULT_VARIANT) not in self.active_by_variant]
        return self.library.segments[free[0]] if free else None

    def _add_segment(self, row: SegmentInput) -> None:
        if row.id is None:
            self.last_number += 1
        new = NewSegment(
            id=self.last_number if row.id is None else row.id,
            scope=row.scope,
            ref=row.ref,
            locale=row.locale,
            version=row.version or 1,
            variant=row.variant,
            active=row.active,
            text=row.text,
        )
        self.new_segments.append(new)
        self.changed_segments[new.id] = create_segment(new)
        self.active_by_variant[new.id, row.variant] = row.active

    def _edit_segment(self, segment: LibrarySegment, row: SegmentInput) -> None:
        before = segment.latest_versions.get(row.variant)
        self.active_by_variant[segment.id, row.variant] = row.active
        last = segment.versions[-1].version
        row_version = row.version or 0
        if before is None or describe_text(before.text) != row.text or row_version > last:
            new = NewSegmentVersion(
                id=segment.id,
                version=max(row_version, last + 1),
                variant=row.variant,
                text=row.text,
            )
            self.new_versions.append(new)
            segment = append_version(segment, new)
        self.changed_segments[segment.id] = segment

    def build_events(self) -> Iterator[LibraryEvent]:
        """Yield the events of the applied rows."""
        for added in _split_batches(self.new_segments):
            yield SegmentsAdded(segments=added)
        for edited in _split_batches(self.new_versions):
            yield SegmentsEdited(versions=edited)
        switched: defaultdict[tuple[bool, str], list[int]] = defaultdict(list)
        for (number, variant), on in self.active_by_variant.items():
            if (variant not in self.changed_segments[number].inactive_variants) != on:
                switched[on, variant].append(number)
        for (on, variant), numbers in switched.items():
            kind = SegmentsActivated if on else SegmentsDeactivated
            for some in _split_batches(numbers):
                yield kind(segments=some, variant=variant)


def _split_batches(items: Sequence[Item]) -> Iterator[tuple[Item, ...]]:
    for start in range(0, len(items), MAX_SEGMENTS_PER_EVENT):
        yield tuple(items[start : start + MAX_SEGMENTS_PER_EVENT])


def _get_placement(segment: LibrarySegment) -> tuple[str, str | None, str | None]:
    return segment.scope, segment.ref, segment.locale


LibraryEvents = tuple[LibraryEvent, ...]


def decide(library: SegmentLibrary, command: LibraryCommand) -> LibraryEvents:
    """Return the events of a command; raise `Refused` naming the field at fault."""
    match command:
        case AddSegment():
            return _decide_add(library, command)
        case EditSegment():
            return _decide_edit(_require_segment(library, command), command)
        case ImportSegments(segments=rows):
            return decide_import(library, rows)
        case _ as never:
            assert_never(never)


def _decide_add(library: SegmentLibrary, command: AddSegment) -> LibraryEvents:
    authored = command.segment
    _raise_first_fault(find_segment_faults(authored))
    new = NewSegment(
        id=max(library.segments, default=0) + 1,
        scope=authored.scope,
        ref=authored.ref,
        locale=authored.locale,
        variant=authored.variant,
        active=authored.active,
        text=authored.text,
    )
    return (SegmentsAdded(segments=(new,)),)


def build_unknown_segment() -> Refused:
    """Return the refusal of a number that no segment has."""
    return Refused("unknown-segment", "there is no segment of this number", field="segment")


def _require_segment(library: SegmentLibrary, command: EditSegment) -> LibrarySegment:
    segment = library.segments.get(command.id)
    if segment is None:
        raise build_unknown_segment()
    last = segment.versions[-1].version
    if command.seen is not None and command.seen != last:
        fix = "read the segment again, and send the version that it has now"
        raise Refused("segment-moved", f"it is at version {last}", field="version", fix=fix)
    return segment


def _decide_edit(segment: LibrarySegment, command: EditSegment) -> LibraryEvents:
    variant = command.variant or next(iter(segment.latest_versions))
    before = segment.latest_versions.get(variant)
    text = _build_segment_text(before.text if before else None, variant, command)
    if before and describe_text(before.text) == describe_text(text):
        return _decide_activation(segment, command)
    version = segment.versions[-1].version + 1
    new = NewSegmentVersion(id=segment.id, version=version, variant=variant, text=text)
    after = append_version(segment, new)
    return (SegmentsEdited(versions=(new,)), *_decide_activation(after, command))


def _build_segment_text(
    before: SegmentText | None, variant: str, command: EditSegment
) -> SegmentText:
    if before is None and command.content is None:
        detail = f"there is no variant {quote_sent_name(variant)} of it yet"
        raise Refused("invalid", detail, field="content", fix="send its text")
    changes: dict[str, object] = {
        "tier": command.tier,
        "type": command.type,
        "priority": command.priority,
    }
    if command.content is not None:
        _raise_first_fault(
            (*find_name_faults("variant", variant), *find_content_faults(command.content))
        )
        changes |= {"digest": compute_digest(command.content), "characters": len(command.content)}
    kept = before.model_dump() if before else {}
    if command.content is not None:
        kept.pop("text_digest", None)
    text = SegmentText.model_validate(kept | {k: v for k, v in changes.items() if v is not None})
    _raise_first_fault(find_text_faults(text.tier, text.type, text.priority))
    return text


def _decide_activation(segment: LibrarySegment, command: EditSegment) -> LibraryEvents:
    if command.active is None:
        return ()
    names = segment.latest_versions if command.variant is None else (command.variant,)
    if all((name not in segment.inactive_variants) == command.active for name in names):
        return ()
    kind = SegmentsActivated if command.active else SegmentsDeactivated
    return (kind(segments=(segment.id,), variant=command.variant),)


def _raise_first_fault(found: Iterable[SegmentInputFault]) -> None:
    for flaw in found:
        raise Refused("invalid", flaw.what, field=flaw.field, fix=flaw.fix)
