"""The segments of a tenant as their history tells it: what each says now, and ever said.

The fold never fails on what was recorded and decides nothing. It holds digests, never texts, so
that a library of thousands of segments fits any process that needs it.
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
    """Of which event something is; of none, where it is yet to be recorded."""

    sequence: int = 0
    at: str = ""
    """When it was recorded."""
    actor: str = ""
    """On whose behalf."""


UNRECORDED: Final = Stamp()


@dataclass(frozen=True, slots=True)
class Version:
    """What a segment said at some time."""

    version: int
    variant: str
    text: SegmentText
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment with everything it ever said."""

    id: int
    scope: str
    ref: str | None
    locale: str | None
    versions: tuple[Version, ...]
    off: frozenset[str] = frozenset()
    """Variants that calls are not given."""

    @property
    def latest(self) -> Mapping[str, Version]:
        """Give what each variant says now, by its name and in the order of names."""
        said = {version.variant: version for version in self.versions}
        return {name: said[name] for name in sorted(said)}

    @property
    def on(self) -> Mapping[str, Version]:
        """Give those variants that calls may be given."""
        return {name: said for name, said in self.latest.items() if name not in self.off}

    @property
    def active(self) -> bool:
        """Whether calls are given anything of it."""
        return bool(self.on)

    def version_at(self, sequence: int) -> int:
        """Tell the latest version there was at a sequence of the library."""
        return max((v.version for v in self.versions if v.stamp.sequence <= sequence), default=0)


@dataclass(frozen=True, slots=True)
class Carried:
    """What a command came to."""

    sequence: int = 0
    """Of its last event."""
    added: tuple[int, ...] = ()
    edited: tuple[int, ...] = ()
    """The segments it added, and those it changed."""


Asked = tuple[Digest, Carried]
"""The digest of a command's body, and what it came to."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """All segments of a tenant."""

    tenant: str
    head: Head | None = None
    """The last event; none before the first."""
    segments: Mapping[int, Segment] = field(default_factory=dict[int, Segment])
    places: Mapping[Place, tuple[int, ...]] = field(default_factory=dict[Place, tuple[int, ...]])
    """Which segments a scope and reference have, by number."""
    commands: Mapping[str, Asked] = field(default_factory=dict[str, Asked])
    """What was asked under which key; for the life of the library."""

    @property
    def sequence(self) -> int:
        """The history's last sequence."""
        return self.head.sequence if self.head else 0


def fold(events: Iterable[Recorded], shelf: Shelf) -> Shelf:
    """Fold events onto a shelf, in order."""
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
    """Give a segment as it begins."""
    first = Version(1, new.variant, new.text, stamp)
    off = frozenset[str]() if new.active else frozenset({new.variant})
    return Segment(new.id, new.scope, new.ref, new.locale, (first,), off)


def saying(segment: Segment, new: NewVersion, stamp: Stamp = UNRECORDED) -> Segment:
    """Give a segment with another text; a variant that is new to a switched-off one is off too."""
    version = Version(new.version, new.variant, new.text, stamp)
    fresh = new.variant not in segment.latest
    off = segment.off | {new.variant} if fresh and not segment.active else segment.off
    return replace(segment, versions=(*segment.versions, version), off=off)


def switched(segment: Segment, variant: str | None, *, on: bool) -> Segment:
    """Give a segment with a variant, or all of them, switched on or off."""
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
    """Say what a command came to by the events it led to."""
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
