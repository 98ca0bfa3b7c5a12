from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from turnlog.events.content import digest_of
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
from turnlog.projections.library.authored import (
    Flaw,
    content_flaws,
    flaws,
    name_flaws,
    text_flaws,
)
from turnlog.projections.library.commands import (
    AddSegment,
    EditSegment,
    ImportSegments,
    LibraryCommand,
)
from turnlog.projections.library.importing import imported
from turnlog.projections.library.shelf import Segment, Shelf, saying

Events = tuple[LibraryEvent, ...]


def decide(shelf: Shelf, command: LibraryCommand) -> Events:
    """Return the events of a command; raise `Refused` naming the field at fault."""
    match command:
        case AddSegment():
            return _added(shelf, command)
        case EditSegment():
            return _edited(_existing(shelf, command), command)
        case ImportSegments(segments=rows):
            return imported(shelf, rows)
        case _ as never:
            assert_never(never)


def _added(shelf: Shelf, command: AddSegment) -> Events:
    authored = command.segment
    _refuse_first(flaws(authored))
    new = NewSegment(
        id=max(shelf.segments, default=0) + 1,
        scope=authored.scope,
        ref=authored.ref,
        locale=authored.locale,
        variant=authored.variant,
        active=authored.active,
        text=authored.text,
    )
    return (SegmentsAdded(segments=(new,)),)


def _existing(shelf: Shelf, command: EditSegment) -> Segment:
    segment = shelf.segments.get(command.id)
    if segment is None:
        raise Refused("unknown-segment", f"there is no segment {command.id}", field="segment")
    last = segment.versions[-1].version
    if command.seen is not None and command.seen != last:
        fix = "read it again, then decide again"
        raise Refused("segment-moved", f"it is at version {last}", field="version", fix=fix)
    return segment


def _edited(segment: Segment, command: EditSegment) -> Events:
    variant = command.variant or next(iter(segment.latest))
    before = segment.latest.get(variant)
    text = _text(before.text if before else None, variant, command)
    if before and before.text == text:
        return _switched(segment, command)
    version = segment.versions[-1].version + 1
    new = NewVersion(id=segment.id, version=version, variant=variant, text=text)
    after = saying(segment, new)
    return (SegmentsEdited(versions=(new,)), *_switched(after, command))


def _text(before: SegmentText | None, variant: str, command: EditSegment) -> SegmentText:
    if before is None and command.content is None:
        detail = f"there is no variant {variant[:80]!r} of it yet"
        raise Refused("invalid", detail, field="content", fix="write what it says")
    given: dict[str, object] = {
        "tier": command.tier,
        "type": command.type,
        "priority": command.priority,
    }
    if command.content is not None:
        _refuse_first((*name_flaws("variant", variant), *content_flaws(command.content)))
        given |= {"digest": digest_of(command.content), "characters": len(command.content)}
    kept = before.model_dump() if before else {}
    text = SegmentText.model_validate(kept | {k: v for k, v in given.items() if v is not None})
    _refuse_first(text_flaws(text.tier, text.type, text.priority))
    return text


def _switched(segment: Segment, command: EditSegment) -> Events:
    if command.active is None:
        return ()
    names = segment.latest if command.variant is None else (command.variant,)
    if all((name not in segment.off) == command.active for name in names):
        return ()
    kind = SegmentsActivated if command.active else SegmentsDeactivated
    return (kind(segments=(segment.id,), variant=command.variant),)


def _refuse_first(found: Iterable[Flaw]) -> None:
    for flaw in found:
        raise Refused("invalid", flaw.what, field=flaw.field, fix=flaw.fix)
