"""Library commands, and the rules that a segment must meet by itself.

The same rules hold for HTTP, the command line and imports. They are applied once more when segments
are selected for a call, because a later release may have recorded what this one cannot use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from turnlog.events.content import digest_of
from turnlog.events.library import SegmentText
from turnlog.projections.blueprint.storable import MAX_INT, storable
from turnlog.projections.blueprint.values import ID, LOCALE

PRIORITIES: Final = ("low", "normal", "high")
"""Priorities, the first to be dropped first."""
MAX_TIER: Final = 1_000
MAX_CONTENT: Final = 100_000
"""Maximum number of characters of a text."""
NAME: Final = r"^[a-z][a-z0-9_-]{0,63}$"
FIRST: Final = "a"
"""The variant of a segment that has only one."""


@dataclass(frozen=True, slots=True)
class Authored:
    """A segment, or one variant of it, as an author submits it."""

    scope: str
    content: str
    ref: str | None = None
    locale: str | None = None
    tier: int = 0
    type: str = ""
    priority: str = "normal"
    variant: str = FIRST
    active: bool = True
    id: int | None = None

    @property
    def text(self) -> SegmentText:
        """The description of its text that an event records."""
        return SegmentText(
            digest=digest_of(self.content),
            characters=len(self.content),
            tier=self.tier,
            type=self.type,
            priority=self.priority,
        )


@dataclass(frozen=True, slots=True)
class Flaw:
    """A fault of one field, with a fix."""

    field: str
    what: str
    fix: str


def flaws(authored: Authored) -> Iterator[Flaw]:
    """Yield all faults that a segment has by itself."""
    yield from content_flaws(authored.content)
    yield from place_flaws(authored.scope, authored.ref, authored.locale, authored.variant)
    yield from text_flaws(authored.tier, authored.type, authored.priority)
    if authored.id is not None and not 1 <= authored.id <= MAX_INT:
        yield Flaw("id", f"{authored.id} is no number of a segment", "count from 1")


def content_flaws(content: str) -> Iterator[Flaw]:
    """Yield the faults of a text."""
    if not content.strip():
        yield Flaw("content", "it says nothing", "write a text, or leave the segment out")
    if not storable(content):
        yield Flaw("content", "NUL and lone surrogates cannot be stored", "take the character out")
    if len(content) > MAX_CONTENT:
        what = f"it has {len(content)} characters, the limit is {MAX_CONTENT}"
        yield Flaw("content", what, "make two segments of it")


def name_flaws(field: str, name: str) -> Iterator[Flaw]:
    """Yield the fault of a name, if any."""
    if re.fullmatch(NAME, name) is None:
        fix = "use lower case, digits, _ and -, beginning with a letter"
        yield Flaw(field, f"{name[:80]!r} is not a name", fix)


def place_flaws(scope: str, ref: str | None, locale: str | None, variant: str) -> Iterator[Flaw]:
    """Yield the faults of scope, reference, locale and variant."""
    yield from name_flaws("scope", scope)
    yield from name_flaws("variant", variant)
    if ref is not None and re.fullmatch(ID, ref) is None:
        fix = "use letters, digits and _ . : -, at most 128, or leave it out"
        yield Flaw("ref", f"{ref[:80]!r} is not an id", fix)
    if locale is not None and re.fullmatch(LOCALE, locale) is None:
        fix = "use a language tag such as `en` or `pt-BR`, or leave it out"
        yield Flaw("locale", f"{locale[:80]!r} is not a locale", fix)


def text_flaws(tier: int, type: str, priority: str) -> Iterator[Flaw]:
    """Yield the faults of tier, type and priority."""
    if not 0 <= tier <= MAX_TIER:
        yield Flaw("tier", f"{tier} is no tier", f"use 0 to {MAX_TIER}")
    if type:
        yield from name_flaws("type", type)
    if priority not in PRIORITIES:
        yield Flaw("priority", f"{priority[:80]!r} is no priority", f"use {', '.join(PRIORITIES)}")
