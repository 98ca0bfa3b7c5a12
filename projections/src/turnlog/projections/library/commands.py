"""Commands: what may be asked of a library's segments."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.projections.library.authored import Authored


@dataclass(frozen=True, slots=True)
class AddSegment:
    """Have another segment."""

    segment: Authored


@dataclass(frozen=True, slots=True)
class EditSegment:
    """Have a segment say something else, or switch it on or off; what is none stays."""

    id: int
    variant: str | None = None
    """Which variant; a new name begins a new one. Without it the text is that of the first one,
    and switching is of all."""
    content: str | None = None
    tier: int | None = None
    type: str | None = None
    priority: str | None = None
    active: bool | None = None
    seen: int | None = None
    """The latest version the editor knows of; refused when there is a later one."""


@dataclass(frozen=True, slots=True)
class ImportSegments:
    """Have all of these, as they are written; what is so already stays as it is."""

    segments: tuple[Authored, ...]


LibraryCommand = AddSegment | EditSegment | ImportSegments
