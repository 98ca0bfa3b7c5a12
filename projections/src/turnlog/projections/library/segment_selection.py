"""Selects the segments of a call by scope, reference, locale and variant.

The selection is pure: the same library and the same session give the same segments in every
process, so that an A/B test needs no table of assignments. A call records exactly what it got (id,
version, variant and digest) and can therefore be reassembled after later edits. Which of it a
prompt includes is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from turnlog.events.content import is_keyed
from turnlog.events.model.manifest import SegmentOmission, SegmentSource
from turnlog.projections.blueprint.locale_tags import format_locale_tag, iterate_locale_fallbacks
from turnlog.projections.library.segment_inputs import find_placement_faults, find_text_faults
from turnlog.projections.library.segment_library import (
    LibrarySegment,
    SegmentLibrary,
    SegmentVersion,
)


@dataclass(frozen=True, slots=True)
class SegmentRequest:
    """A request for the segments of one scope and reference, such as `npc` and `npc.innkeeper`."""

    scope: str
    ref: str | None = None
    """None requests the segments without a reference."""
    required: bool = False
    """True if the turn is refused when the segments are unavailable; otherwise it goes on without
    them.
    """


@dataclass(frozen=True, slots=True)
class SelectedSegment:
    """One segment as a call gets it."""

    source: SegmentSource
    """The version that the session gets, as the manifest records it."""
    text: str


@dataclass(frozen=True, slots=True)
class CallSegments:
    """Everything that one call gets from the library."""

    segments: Mapping[SegmentRequest, tuple[SelectedSegment, ...]]
    """The segments of each request, ordered by id; empty if there are none."""
    omitted: tuple[SegmentOmission, ...] = ()
    """Segments that are faulty or unavailable."""
    stale: bool = False
    """True if the library was unavailable and the last known state is used."""


@dataclass(frozen=True, slots=True)
class SegmentChoice:
    """A segment, and the version that a session gets."""

    segment: LibrarySegment
    version: SegmentVersion

    def build_source(self) -> SegmentSource:
        """Return the source of a part that includes it."""
        segment, version, text = self.segment, self.version, self.version.text
        return SegmentSource(
            segment=segment.id,
            version=version.version,
            digest=text.digest,
            scope=segment.scope,
            ref=segment.ref,
            locale=segment.locale,
            variant=version.variant,
            tier=text.tier,
            type=text.type,
            priority=text.priority,
            sealed_in=version.stamp.sequence if is_keyed(text.digest) else None,
        )

    def build_omission(self, reason: str) -> SegmentOmission:
        """Return that it is left out."""
        segment = self.segment
        return SegmentOmission(
            scope=segment.scope, ref=segment.ref, segment=segment.id, reason=reason
        )


@dataclass(frozen=True, slots=True)
class SegmentSelection:
    """The selected segments of one request, and those that cannot be used."""

    choices: tuple[SegmentChoice, ...]
    omitted: tuple[SegmentOmission, ...]


def select_segments(
    library: SegmentLibrary, request: SegmentRequest, locales: Sequence[str], session: str
) -> SegmentSelection:
    """Select the segments of one request for a session.

    All segments come from the first of the locales and their fallbacks that has any, so that a
    layer never mixes two languages.
    """
    numbers = library.numbers_by_placement.get((request.scope, request.ref), ())
    segments = (library.segments[number] for number in numbers)
    choices = [each for segment in segments if (each := _choose_version(segment, session))]
    omitted = {each.segment.id: fault for each in choices if (fault := _find_unusable(each))}
    usable = [each for each in choices if each.segment.id not in omitted]
    return SegmentSelection(_filter_by_locale(usable, locales), tuple(omitted.values()))


def select_variant(segment: LibrarySegment, session: str) -> SegmentVersion | None:
    """Return the version of a segment that a session gets.

    None if all variants are switched off.
    """
    on = segment.active_versions
    names = tuple(on)
    return on[names[_pick_variant_index(session, names)]] if names else None


def _choose_version(segment: LibrarySegment, session: str) -> SegmentChoice | None:
    version = select_variant(segment, session)
    return SegmentChoice(segment, version) if version else None


def _pick_variant_index(session: str, variants: Sequence[str]) -> int:
    """Pick by session alone: segments with the same variants all get the same one."""
    if len(variants) == 1:
        return 0
    digest = sha256("\n".join((session, *variants)).encode()).digest()
    return int.from_bytes(digest[:8]) % len(variants)


def _find_unusable(choice: SegmentChoice) -> SegmentOmission | None:
    segment, version = choice.segment, choice.version
    text = version.text
    found = (
        *find_placement_faults(segment.scope, segment.ref, segment.locale, version.variant),
        *find_text_faults(text.tier, text.type, text.priority),
    )
    if not found:
        return None
    return choice.build_omission(f"version {version.version}: {found[0].field}: {found[0].what}")


def _filter_by_locale(
    choices: Iterable[SegmentChoice], locales: Sequence[str]
) -> tuple[SegmentChoice, ...]:
    written = [(format_locale_tag(each.segment.locale), each) for each in choices]
    for locale in iterate_locale_fallbacks(locales):
        if found := tuple(each for tag, each in written if tag == locale):
            return found
    return ()
