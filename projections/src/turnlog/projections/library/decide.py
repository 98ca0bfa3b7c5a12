from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.events.library import (
    LibraryEvent,
    NewSegment,
    NewSegmentVersion,
    SegmentsActivated,
    SegmentsAdded,
    SegmentsDeactivated,
    SegmentsEdited,
    SegmentText,
)
from turnlog.projections.library.authored import (
    SegmentInputFault,
    find_content_faults,
    find_segment_faults,
    find_name_faults,
    find_text_faults,
)
from turnlog.projections.library.commands import (
    AddSegment,
    EditSegment,
    ImportSegments,
    LibraryCommand,
)
from turnlog.projections.library.importing import decide_import
from turnlog.projections.library.shelf import LibrarySegment, SegmentLibrary, append_version

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


def _require_segment(library: SegmentLibrary, command: EditSegment) -> LibrarySegment:
    segment = library.segments.get(command.id)
    if segment is None:
        raise Refused("unknown-segment", f"there is no segment {command.id}", field="segment")
    last = segment.versions[-1].version
    if command.seen is not None and command.seen != last:
        fix = "read it again, then decide again"
        raise Refused("segment-moved", f"it is at version {last}", field="version", fix=fix)
    return segment


def _decide_edit(segment: LibrarySegment, command: EditSegment) -> LibraryEvents:
    variant = command.variant or next(iter(segment.latest_versions))
    before = segment.latest_versions.get(variant)
    text = _build_segment_text(before.text if before else None, variant, command)
    if before and before.text == text:
        return _decide_activation(segment, command)
    version = segment.versions[-1].version + 1
    new = NewSegmentVersion(id=segment.id, version=version, variant=variant, text=text)
    after = append_version(segment, new)
    return (SegmentsEdited(versions=(new,)), *_decide_activation(after, command))


def _build_segment_text(before: SegmentText | None, variant: str, command: EditSegment) -> SegmentText:
    if before is None and command.content is None:
        detail = f"there is no variant {variant[:80]!r} of it yet"
        raise Refused("invalid", detail, field="content", fix="write what it says")
    given: dict[str, object] = {
        "tier": command.tier,
        "type": command.type,
        "priority": command.priority,
    }
    if command.content is not None:
        _raise_first_fault((*find_name_faults("variant", variant), *find_content_faults(command.content)))
        given |= {"digest": compute_digest(command.content), "characters": len(command.content)}
    kept = before.model_dump() if before else {}
    text = SegmentText.model_validate(kept | {k: v for k, v in given.items() if v is not None})
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
