"""Selects the segments of a call by scope, reference, locale and variant.

The selection is pure: the same library and the same session give the same segments in every
process, so that an A/B test needs no table of assignments. A call records exactly what it got (id,
version, variant and digest) and can therefore be reassembled after later edits. Which of it a
prompt includes is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turnlog.events.content import Digest


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

    id: int
    """The segment's number within its tenant."""
    scope: str
    ref: str | None
    locale: str | None
    """The locale it is written in; None for a segment that is used if no locale matches."""
    version: int
    """Version number of the segment, from 1."""
    variant: str
    """The variant the session gets; `a` if there is only one."""
    tier: int
    """How much a reader must have discovered; 0 is for everyone."""
    type: str
    """The kind of text, such as `npc_cue`; may be empty."""
    priority: str
    """`low`, `normal` or `high`."""
    digest: Digest
    """Digest of the blob that contains the text."""
    text: str


@dataclass(frozen=True, slots=True)
class OmittedSegment:
    """A requested segment that is unavailable or unusable."""

    scope: str
    ref: str | None
    segment: int | None
    """Number of the segment; None if nothing of the scope and reference was available."""
    reason: str
    """One sentence for the maintainer of the library."""


@dataclass(frozen=True, slots=True)
class CallSegments:
    """Everything that one call gets from the library."""

    segments: Mapping[SegmentRequest, tuple[SelectedSegment, ...]]
    """The segments of each request, ordered by id; empty if there are none."""
    omitted: tuple[OmittedSegment, ...] = ()
    """Segments that are faulty or unavailable."""
    stale: bool = False
    """True if the library was unavailable and the last known state is used."""
