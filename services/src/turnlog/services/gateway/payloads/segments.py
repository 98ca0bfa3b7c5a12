"""What may be sent and is answered about the library's segments.

What a value may be is for the library's own rules to say, at this door as at every other.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from turnlog.events.content import Digest
from turnlog.projections.blueprint.storable import MAX_INT
from turnlog.projections.library.authored import FIRST, Authored
from turnlog.projections.library.commands import EditSegment, ImportSegments
from turnlog.services.gateway.payloads.closed import Answer, Form

MOST_ROWS = 20_000
"""Segments one import may have."""
Number = Annotated[int, Field(ge=1, le=MAX_INT)]


class SegmentForm(Form):
    """A segment as it is to be."""

    scope: str
    """What part of a prompt it is for, such as `npc`."""
    content: str
    """Its text."""
    ref: str | None = None
    """Whose it is within the scope, such as `npc.innkeeper`."""
    locale: str | None = None
    """The locale it is written in; without one it stands in wherever no other is found."""
    tier: int = 0
    """How much a reader must have found out; 0 is for everyone."""
    type: str = ""
    """What kind of text it is, such as `npc_cue`."""
    priority: str = "normal"
    """`low`, `normal` or `high`."""
    variant: str = FIRST
    """Which variant the text is of."""
    active: bool = True
    """Whether calls are given it."""

    def authored(self) -> Authored:
        """Give it as the library knows it."""
        return Authored(**self.model_dump())


class RowForm(SegmentForm):
    """A segment of an import."""

    id: Number | None = None
    """The number it has, or is to have; without one it is told by what it says."""


class ImportForm(Form):
    """Segments that are to be there as they are written; what is so already stays as it is."""

    segments: Annotated[list[RowForm], Field(max_length=MOST_ROWS)]
    """All of them, or none where one cannot be."""

    def command(self) -> ImportSegments:
        """Give it as the library knows it."""
        return ImportSegments(tuple(row.authored() for row in self.segments))


class EditForm(Form):
    """What is to change of a segment; what is left out stays."""

    content: str | None = None
    """Another text."""
    tier: int | None = None
    """Another tier."""
    type: str | None = None
    """Another kind of text."""
    priority: str | None = None
    """Another priority."""
    active: bool | None = None
    """Whether calls are given the variant, or all variants where none is named."""
    variant: str | None = None
    """Which variant; a new name begins a new one. Without it the text is that of the first."""
    version: Number | None = None
    """The latest version you have seen; where there is a later one, nothing changes (409)."""

    def command(self, segment: int) -> EditSegment:
        """Give it as the library knows it."""
        given = self.model_dump(exclude={"version"})
        return EditSegment(segment, seen=self.version, **given)


class SegmentChanged(Answer):
    """A segment is as it was asked to be."""

    segment: int
    """Its number."""
    version: int
    """Its latest version."""
    sequence: int
    """The library's sequence at which that is so."""


class SegmentsImported(Answer):
    """All segments are as they were asked to be."""

    added: tuple[int, ...]
    """Numbers of those that are new."""
    edited: tuple[int, ...]
    """Numbers of those that changed."""
    rows: int
    """How many rows there were; what they add up to beyond these was so already."""
    sequence: int
    """The library's sequence at which that is so."""


class ListedSegment(Answer):
    """A variant of a segment as it is now."""

    id: int
    """The segment's number."""
    variant: str
    """The variant."""
    scope: str
    """What part of a prompt it is for."""
    ref: str | None
    """Whose it is within the scope."""
    locale: str | None
    """The locale it is written in."""
    content: str | None
    """Its text; null where it is gone from the store."""
    digest: Digest
    """Digest of the text."""
    characters: int
    """Its length in code points."""
    tier: int
    """How much a reader must have found out."""
    type: str
    """What kind of text it is."""
    priority: str
    """`low`, `normal` or `high`."""
    active: bool
    """Whether calls are given it."""
    version: int
    """Which of the segment's versions it is."""
    edited_at: str
    """When it was last edited."""
    edited_by: str
    """On whose behalf."""


class SegmentPage(Answer):
    """Some segments, in the order of their numbers."""

    segments: tuple[ListedSegment, ...]
    """Their variants, those of one segment together."""
    next: int | None
    """Give this back as `after` for the next page; null on the last."""


class VersionView(Answer):
    """What a segment said at some time."""

    version: int
    """Counts the texts of the segment, whatever their variant."""
    variant: str
    """Which variant it was of."""
    content: str | None
    """The text; null where it is gone from the store."""
    digest: Digest
    """Digest of the text."""
    characters: int
    """Its length in code points."""
    tier: int
    """How much a reader must have found out."""
    type: str
    """What kind of text it is."""
    priority: str
    """`low`, `normal` or `high`."""
    edited_at: str
    """When it was recorded."""
    edited_by: str
    """On whose behalf."""


class SegmentView(Answer):
    """A segment with everything it ever said, as its own log tells it."""

    id: int
    """Its number."""
    sequence: int
    """The library's last event."""
    scope: str
    """What part of a prompt it is for."""
    ref: str | None
    """Whose it is within the scope."""
    locale: str | None
    """The locale it is written in."""
    active: bool
    """Whether calls are given anything of it."""
    variants: dict[str, int]
    """Those that calls may be given, each with its version."""
    versions: tuple[VersionView, ...]
    """From the first to the latest."""
