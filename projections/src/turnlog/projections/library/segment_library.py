"""The state of a tenant's segment library, folded from its events.

The fold accepts every recorded event and decides nothing. It contains digests and no texts, so that
a library of thousands of segments fits into any process.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from turnlog.events.codec import decode_segment_event
from turnlog.events.content import Digest
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.model.redaction_events import SourceErased, SourceErasureBegun
from turnlog.events.model.segment_events import (
    SEGMENT_FAMILY,
    NewSegment,
    NewSegmentVersion,
    SegmentEvent,
    SegmentsActivated,
    SegmentsAdded,
    SegmentsDeactivated,
    SegmentsEdited,
    SegmentText,
)
from turnlog.events.registry import UnknownEvent
from turnlog.projections.library.source_erasures import list_begun_sequences

SegmentPlacement = tuple[str, str | None]
"""Scope and reference."""


@dataclass(frozen=True, slots=True)
class EventStamp:
    """The event that something was recorded by; empty if it is not recorded yet."""

    sequence: int = 0
    at: str = ""
    """When the event was recorded."""
    actor: str = ""
    """On whose behalf."""


UNRECORDED_STAMP: Final = EventStamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVersion:
    """One version of one variant of a segment."""

    version: int
    variant: str
    text: SegmentText
    stamp: EventStamp
    is_erased: bool = False
    """Whether its text is erased, so that no call gets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibrarySegment:
    """A segment with all its versions."""

    id: int
    scope: str
    ref: str | None
    locale: str | None
    versions: tuple[SegmentVersion, ...]
    inactive_variants: frozenset[str] = frozenset()
    """Variants that are switched off, so that no call gets them."""

    @property
    def latest_versions(self) -> Mapping[str, SegmentVersion]:
        """The latest version of each variant, ordered by the variant's name."""
        latest = {version.variant: version for version in self.versions}
        return {name: latest[name] for name in sorted(latest)}

    @property
    def active_versions(self) -> Mapping[str, SegmentVersion]:
        """The latest versions of the variants that are switched on, and whose text is there."""
        return {
            name: version
            for name, version in self.latest_versions.items()
            if name not in self.inactive_variants and not version.is_erased
        }

    @property
    def is_active(self) -> bool:
        """Whether any variant is switched on."""
        return bool(self.active_versions)

    def get_version_at(self, sequence: int) -> int:
        """Return the latest version number at a sequence of the library; 0 if there was none."""
        return max((v.version for v in self.versions if v.stamp.sequence <= sequence), default=0)


@dataclass(frozen=True, slots=True)
class LibraryCommandResult:
    """The result of a library command."""

    sequence: int = 0
    """The sequence of its last event."""
    added: tuple[int, ...] = ()
    edited: tuple[int, ...] = ()
    """Numbers of the segments it changed; `added` has those it added."""


@dataclass(frozen=True, slots=True)
class LibraryCommandRecord:
    """A command that was carried out; the same key with the same body gets the same answer."""

    hash: Digest
    """The digest of the command's body."""
    result: LibraryCommandResult = LibraryCommandResult()


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLibrary:
    """The state of a tenant's segment library."""

    tenant: str
    head: ChainHead | None = None
    """The last event; None before the first."""
    segments: Mapping[int, LibrarySegment] = field(default_factory=dict[int, LibrarySegment])
    numbers_by_placement: Mapping[SegmentPlacement, tuple[int, ...]] = field(
        default_factory=dict[SegmentPlacement, tuple[int, ...]]
    )
    """The segment numbers of each scope and reference."""
    commands_by_key: Mapping[str, LibraryCommandRecord] = field(
        default_factory=dict[str, LibraryCommandRecord]
    )
    """Command results by idempotency key, kept for the life of the library."""

    @property
    def sequence(self) -> int:
        """The sequence of the last event; 0 before the first."""
        return self.head.sequence if self.head else 0


def fold(events: Iterable[RecordedEvent], library: SegmentLibrary) -> SegmentLibrary:
    """Apply events to a library, in order."""
    segments, places = dict(library.segments), dict(library.numbers_by_placement)
    commands, head = dict(library.commands_by_key), library.head
    placed: dict[SegmentPlacement, list[int]] = {}
    for recorded in events:
        event, head = decode_segment_event(recorded), recorded.head
        for changed in _apply_event(segments, event, recorded):
            if changed.id not in segments:
                placed.setdefault((changed.scope, changed.ref), []).append(changed.id)
            segments[changed.id] = changed
        _record_command(commands, event, recorded)
    for place, added in placed.items():
        places[place] = tuple(sorted((*places.get(place, ()), *added)))
    return SegmentLibrary(
        tenant=library.tenant,
        head=head,
        segments=segments,
        numbers_by_placement=places,
        commands_by_key=commands,
    )


def _apply_event(
    segments: Mapping[int, LibrarySegment],
    event: SegmentEvent | UnknownEvent,
    recorded: RecordedEvent,
) -> Iterable[LibrarySegment]:
    stamp = EventStamp(recorded.sequence, recorded.envelope.time, recorded.envelope.actor)
    match event:
        case SegmentsAdded(segments=added):
            return [create_segment(new, stamp) for new in added]
        case SegmentsEdited(versions=versions):
            return _apply_edits(segments, versions, stamp)
        case SegmentsDeactivated(segments=ids, variant=variant):
            return [
                set_variants_active(segments[each], variant, active=False)
                for each in ids
                if each in segments
            ]
        case SegmentsActivated(segments=ids, variant=variant):
            return [
                set_variants_active(segments[each], variant, active=True)
                for each in ids
                if each in segments
            ]
        case SourceErasureBegun(segment=int(number)) if number in segments:
            return [_erase_versions(segments[number], list_begun_sequences(event, SEGMENT_FAMILY))]
        case UnknownEvent() | SourceErasureBegun() | SourceErased():
            return ()
        case _ as never:
            assert_never(never)


def _erase_versions(segment: LibrarySegment, erased: Container[int]) -> LibrarySegment:
    """Return the segment without the texts that these events brought."""
    versions = (
        replace(each, is_erased=True) if each.stamp.sequence in erased else each
        for each in segment.versions
    )
    return replace(segment, versions=tuple(versions))


def _apply_edits(
    segments: Mapping[int, LibrarySegment], versions: Iterable[NewSegmentVersion], stamp: EventStamp
) -> Iterable[LibrarySegment]:
    made: dict[int, LibrarySegment] = {}
    for new in versions:
        before = made.get(new.id) or segments.get(new.id)
        if before is not None:
            made[new.id] = append_version(before, new, stamp)
    return made.values()


def create_segment(new: NewSegment, stamp: EventStamp = UNRECORDED_STAMP) -> LibrarySegment:
    """Return a new segment with its first version."""
    first = SegmentVersion(version=new.version, variant=new.variant, text=new.text, stamp=stamp)
    off = frozenset[str]() if new.active else frozenset({new.variant})
    return LibrarySegment(
        id=new.id,
        scope=new.scope,
        ref=new.ref,
        locale=new.locale,
        versions=(first,),
        inactive_variants=off,
    )


def append_version(
    segment: LibrarySegment, new: NewSegmentVersion, stamp: EventStamp = UNRECORDED_STAMP
) -> LibrarySegment:
    """Return the segment with another version.

    A new variant of a segment that is switched off is switched off too.
    """
    version = SegmentVersion(version=new.version, variant=new.variant, text=new.text, stamp=stamp)
    fresh = new.variant not in segment.latest_versions
    off = (
        segment.inactive_variants | {new.variant}
        if fresh and not segment.is_active
        else segment.inactive_variants
    )
    return replace(segment, versions=(*segment.versions, version), inactive_variants=off)


def set_variants_active(
    segment: LibrarySegment, variant: str | None, *, active: bool
) -> LibrarySegment:
    """Return the segment with one variant, or all if it is None, switched on or off."""
    these = frozenset(segment.latest_versions if variant is None else (variant,))
    return replace(
        segment,
        inactive_variants=segment.inactive_variants - these
        if active
        else segment.inactive_variants | these,
    )


def _record_command(
    commands: dict[str, LibraryCommandRecord],
    event: SegmentEvent | UnknownEvent,
    recorded: RecordedEvent,
) -> None:
    key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
    if key is not None and digest is not None:
        before = commands.get(key, LibraryCommandRecord(digest)).result
        result = _add_to_result(before, event, recorded)
        commands[key] = LibraryCommandRecord(digest, result)


def build_command_result(events: Iterable[RecordedEvent]) -> LibraryCommandResult:
    """Return the result of a command from the events it led to."""
    result = LibraryCommandResult()
    for recorded in events:
        result = _add_to_result(result, decode_segment_event(recorded), recorded)
    return result


def _add_to_result(
    before: LibraryCommandResult, event: SegmentEvent | UnknownEvent, recorded: RecordedEvent
) -> LibraryCommandResult:
    added, edited = _list_changed_segments(event)
    added = (*before.added, *added)
    others = (each for each in edited if each not in before.edited and each not in added)
    return LibraryCommandResult(recorded.sequence, added, (*before.edited, *others))


def _list_changed_segments(
    event: SegmentEvent | UnknownEvent,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    match event:
        case SegmentsAdded(segments=added):
            return tuple(new.id for new in added), ()
        case SegmentsEdited(versions=versions):
            return (), tuple(dict.fromkeys(new.id for new in versions))
        case SegmentsDeactivated(segments=ids) | SegmentsActivated(segments=ids):
            return (), ids
        case SourceErasureBegun(segment=int(number)):
            return (), (number,)
        case UnknownEvent() | SourceErasureBegun() | SourceErased():
            return (), ()
        case _ as never:
            assert_never(never)
