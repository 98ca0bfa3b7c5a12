"""The state of a tenant's segment library, folded from its events.

The fold accepts every recorded event and decides nothing. It contains digests and no texts, so that
a library of thousands of segments fits into any process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from turnlog.events.content import Digest
from turnlog.events.envelope import Head, Recorded
from turnlog.events.kinds import Unknown
from turnlog.events.library import (
    LibraryEvent,
    NewSegment,
    NewVersion,
    SegmentsActivated,
    SegmentsAdded,
    SegmentsDeactivated,
    SegmentsEdited,
    SegmentText,
    understood,
)

Place = tuple[str, str | None]
"""Scope and reference."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The event that something was recorded by; empty if it is not recorded yet."""

    sequence: int = 0
    at: str = ""
    """When the event was recorded."""
    actor: str = ""
    """On whose behalf."""


UNRECORDED: Final = Stamp()


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one variant of a segment."""

    version: int
    variant: str
    text: SegmentText
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment with all its versions."""

    id: int
    scope: str
    ref: str | None
    locale: str | None
    versions: tuple[Version, ...]
    off: frozenset[str] = frozenset()
    """Variants that are switched off, so that no call gets them."""

    @property
    def latest(self) -> Mapping[str, Version]:
        """The latest version of each variant, ordered by the variant's name."""
        said = {version.variant: version for version in self.versions}
        return {name: said[name] for name in sorted(said)}

    @property
    def on(self) -> Mapping[str, Version]:
        """The latest versions of the variants that are switched on."""
        return {name: said for name, said in self.latest.items() if name not in self.off}

    @property
    def active(self) -> bool:
        """Whether any variant is switched on."""
        return bool(self.on)

    def version_at(self, sequence: int) -> int:
        """Return the latest version number at a sequence of the library; 0 if there was none."""
        return max((v.version for v in self.versions if v.stamp.sequence <= sequence), default=0)


@dataclass(frozen=True, slots=True)
class Carried:
    """The result of a library command."""

    sequence: int = 0
    """The sequence of its last event."""
    added: tuple[int, ...] = ()
    edited: tuple[int, ...] = ()
    """Numbers of the segments it changed; `added` has those it added."""


Asked = tuple[Digest, Carried]
"""The digest of a command's body, and its result."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The state of a tenant's segment library."""

    tenant: str
    head: Head | None = None
    """The last event; None before the first."""
    segments: Mapping[int, Segment] = field(default_factory=dict[int, Segment])
    places: Mapping[Place, tuple[int, ...]] = field(default_factory=dict[Place, tuple[int, ...]])
    """The segment numbers of each scope and reference."""
    commands: Mapping[str, Asked] = field(default_factory=dict[str, Asked])
    """Command results by idempotency key, kept for the life of the library."""

    @property
    def sequence(self) -> int:
        """The sequence of the last event; 0 before the first."""
        return self.head.sequence if self.head else 0


def fold(events: Iterable[Recorded], shelf: Shelf) -> Shelf:
    """Apply events to a library, in order."""
    segments, places = dict(shelf.segments), dict(shelf.places)
    commands, head = dict(shelf.commands), shelf.head
    for recorded in events:
        event, head = understood(recorded), recorded.head
        for changed in _changed(segments, event, recorded):
            if changed.id not in segments:
                place = (changed.scope, changed.ref)
                places[place] = tuple(sorted((*places.get(place, ()), changed.id)))
            segments[changed.id] = changed
        _remember(commands, event, recorded)
    return Shelf(shelf.tenant, head, segments, places, commands)


def _changed(
    segments: Mapping[int, Segment], event: LibraryEvent | Unknown, recorded: Recorded
) -> Iterable[Segment]:
    stamp = Stamp(recorded.sequence, recorded.envelope.time, recorded.envelope.actor)
    match event:
        case SegmentsAdded(segments=added):
            return [begun(new, stamp) for new in added]
        case SegmentsEdited(versions=versions):
            return _edited(segments, versions, stamp)
        case SegmentsDeactivated(segments=ids, variant=variant):
            return [switched(segments[each], variant, on=False) for each in ids if each in segments]
        case SegmentsActivated(segments=ids, variant=variant):
            return [switched(segments[each], variant, on=True) for each in ids if each in segments]
        case Unknown():
            return ()
        case _ as never:
            assert_never(never)


def _edited(
    segments: Mapping[int, Segment], versions: Iterable[NewVersion], stamp: Stamp
) -> Iterable[Segment]:
    made: dict[int, Segment] = {}
    for new in versions:
        before = made.get(new.id) or segments.get(new.id)
        if before is not None:
            made[new.id] = saying(before, new, stamp)
    return made.values()


def begun(new: NewSegment, stamp: Stamp = UNRECORDED) -> Segment:
    """Return a new segment with its first version."""
    first = Version(1, new.variant, new.text, stamp)
    off = frozenset[str]() if new.active else frozenset({new.variant})
    return Segment(new.id, new.scope, new.ref, new.locale, (first,), off)


def saying(segment: Segment, new: NewVersion, stamp: Stamp = UNRECORDED) -> Segment:
    """Return the segment with another version.

    A new variant of a segment that is switched off is switched off too.
    """
    version = Version(new.version, new.variant, new.text, stamp)
    fresh = new.variant not in segment.latest
    off = segment.off | {new.variant} if fresh and not segment.active else segment.off
    return replace(segment, versions=(*segment.versions, version), off=off)


def switched(segment: Segment, variant: str | None, *, on: bool) -> Segment:
    """Return the segment with one variant, or all if it is None, switched on or off."""
    these = frozenset(segment.latest if variant is None else (variant,))
    return replace(segment, off=segment.off - these if on else segment.off | these)


def _remember(
    commands: dict[str, Asked], event: LibraryEvent | Unknown, recorded: Recorded
) -> None:
    key, digest = recorded.envelope.commandkey, recorded.envelope.commandhash
    if key is not None and digest is not None:
        _, before = commands.get(key, (digest, Carried()))
        commands[key] = digest, _further(before, event, recorded)


def carried(events: Iterable[Recorded]) -> Carried:
    """Return the result of a command from the events it led to."""
    came = Carried()
    for recorded in events:
        came = _further(came, understood(recorded), recorded)
    return came


def _further(before: Carried, event: LibraryEvent | Unknown, recorded: Recorded) -> Carried:
    added, edited = _touched(event)
    added = (*before.added, *added)
    others = (each for each in edited if each not in before.edited and each not in added)
    return Carried(recorded.sequence, added, (*before.edited, *others))


def _touched(event: LibraryEvent | Unknown) -> tuple[tuple[int, ...], tuple[int, ...]]:
    match event:
        case SegmentsAdded(segments=added):
            return tuple(new.id for new in added), ()
        case SegmentsEdited(versions=versions):
            return (), tuple(dict.fromkeys(new.id for new in versions))
        case SegmentsDeactivated(segments=ids) | SegmentsActivated(segments=ids):
            return (), ids
        case Unknown():
            return (), ()
        case _ as never:
            assert_never(never)
