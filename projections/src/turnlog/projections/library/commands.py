from __future__ import annotations

from dataclasses import dataclass

from turnlog.projections.library.authored import SegmentInput


@dataclass(frozen=True, slots=True)
class AddSegment:
    """Add a segment."""

    segment: SegmentInput


@dataclass(frozen=True, slots=True)
class EditSegment:
    """Change the text of a segment, or switch it on or off; a None field stays as it is."""

    id: int
    variant: str | None = None
    """The variant; a new name adds a variant. Without it the text is that of the first variant, and
    switching concerns all variants.
    """
    content: str | None = None
    tier: int | None = None
    type: str | None = None
    priority: str | None = None
    active: bool | None = None
    seen: int | None = None
    """The latest version known to the editor; the command is refused if there is a later one."""


@dataclass(frozen=True, slots=True)
class ImportSegments:
    """Add or change segments so that they are as given; what is already so does not change."""

    segments: tuple[SegmentInput, ...]


LibraryCommand = AddSegment | EditSegment | ImportSegments
