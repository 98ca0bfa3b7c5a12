"""Library commands, and the rules that a segment must meet by itself.

The same rules hold for HTTP, the command line and imports. They are applied once more when segments
are selected for a call, because a later release may have recorded what this one cannot use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from turnlog.events.content import compute_digest
from turnlog.events.model.segment_events import SegmentText
from turnlog.events.storable_text import is_storable
from turnlog.projections.blueprint.schema.strict_model import ID_PATTERN, LOCALE_PATTERN
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.blueprint.storable_json import MAX_INT

SEGMENT_PRIORITIES: Final = ("low", "normal", "high")
"""Priorities, the first to be dropped first."""

MAX_TIER: Final = 1_000

MAX_VERSION: Final = 1_000_000_000
"""The highest version number that an import may bring with it."""

MAX_CONTENT_CHARACTERS: Final = 100_000
"""Maximum number of characters of a text."""

SEGMENT_NAME_PATTERN: Final = r"^[a-z][a-z0-9_-]{0,63}$"

DEFAULT_VARIANT: Final = "a"
"""The variant of a segment that has only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInput:
    """A segment, or one variant of it, as an author submits it."""

    scope: str
    content: str
    ref: str | None = None
    locale: str | None = None
    tier: int = 0
    type: str = ""
    priority: str = "normal"
    variant: str = DEFAULT_VARIANT
    active: bool = True
    id: int | None = None
    version: int | None = None
    """The version number that it had elsewhere; None to count on."""

    @property
    def text(self) -> SegmentText:
        """The description of its text that an event records."""
        return SegmentText(
            digest=compute_digest(self.content),
            characters=len(self.content),
            tier=self.tier,
            type=self.type,
            priority=self.priority,
        )


@dataclass(frozen=True, slots=True)
class SegmentInputFault:
    """A fault of one field, with a fix."""

    field: str
    what: str
    fix: str


def find_segment_faults(segment: SegmentInput) -> Iterator[SegmentInputFault]:
    """Yield all faults that a segment has by itself."""
    yield from find_content_faults(segment.content)
    yield from find_placement_faults(segment.scope, segment.ref, segment.locale, segment.variant)
    yield from find_text_faults(segment.tier, segment.type, segment.priority)
    if segment.id is not None and not 1 <= segment.id <= MAX_INT:
        yield SegmentInputFault("id", "it is not the number of a segment", "use a number from 1")
    if segment.version is not None and not 1 <= segment.version <= MAX_VERSION:
        fix = f"use 1 to {MAX_VERSION}, or leave it out"
        yield SegmentInputFault("version", "it is not a version number", fix)


def find_content_faults(content: str) -> Iterator[SegmentInputFault]:
    """Yield the faults of a text."""
    if not content.strip():
        yield SegmentInputFault(
            "content", "the text is empty", "write a text, or leave the segment out"
        )
    if not is_storable(content):
        yield SegmentInputFault(
            "content", "NUL and lone surrogates cannot be stored", "remove the character"
        )
    if len(content) > MAX_CONTENT_CHARACTERS:
        what = f"it has {len(content)} characters, the limit is {MAX_CONTENT_CHARACTERS}"
        yield SegmentInputFault("content", what, "split it into two segments")


def find_name_faults(field: str, name: str) -> Iterator[SegmentInputFault]:
    """Yield the fault of a name, if any."""
    if re.fullmatch(SEGMENT_NAME_PATTERN, name) is None:
        fix = "use lower case, digits, _ and -, beginning with a letter"
        yield SegmentInputFault(field, f"{quote_sent_name(name)} is not a name", fix)


def find_placement_faults(
    scope: str, ref: str | None, locale: str | None, variant: str
) -> Iterator[SegmentInputFault]:
    """Yield the faults of scope, reference, locale and variant."""
    yield from find_name_faults("scope", scope)
    yield from find_name_faults("variant", variant)
    if ref is not None and re.fullmatch(ID_PATTERN, ref) is None:
        fix = "use letters, digits and _ . : -, at most 128, or leave it out"
        yield SegmentInputFault("ref", f"{quote_sent_name(ref)} is not an id", fix)
    if locale is not None and re.fullmatch(LOCALE_PATTERN, locale) is None:
        fix = "use a language tag such as `en` or `pt-BR`, or leave it out"
        yield SegmentInputFault("locale", f"{quote_sent_name(locale)} is not a locale", fix)


def find_text_faults(tier: int, type: str, priority: str) -> Iterator[SegmentInputFault]:
    """Yield the faults of tier, type and priority."""
    if not 0 <= tier <= MAX_TIER:
        yield SegmentInputFault("tier", "it is no tier", f"use 0 to {MAX_TIER}")
    if type:
        yield from find_name_faults("type", type)
    if priority not in SEGMENT_PRIORITIES:
        yield SegmentInputFault(
            "priority",
            f"{quote_sent_name(priority)} is no priority",
            f"use {', '.join(SEGMENT_PRIORITIES)}",
        )


@dataclass(frozen=True, slots=True)
class AddSegment:
    """Add a segment."""

    segment: SegmentInput


@dataclass(frozen=True, slots=True, kw_only=True)
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
