"""A segment as an author writes it, and everything that can be wrong with one by itself.

The same rules hold at every door (HTTP, the command line, an import) and once more when a call
is given segments: what a later release recorded may be nothing this one can use.
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
"""From what goes first to what goes last."""
MAX_TIER: Final = 1_000
MAX_CONTENT: Final = 100_000
"""Characters one text may have."""
NAME: Final = r"^[a-z][a-z0-9_-]{0,63}$"
FIRST: Final = "a"
"""The variant of a segment that has one only."""


@dataclass(frozen=True, slots=True)
class Authored:
    """A segment, or one variant of it, as it is to be."""

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
        """Give what an event says of its text."""
        return SegmentText(
            digest=digest_of(self.content),
            characters=len(self.content),
            tier=self.tier,
            type=self.type,
            priority=self.priority,
        )


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something that is wrong with a field, and the way out."""

    field: str
    what: str
    fix: str


def flaws(authored: Authored) -> Iterator[Flaw]:
    """Name everything that is wrong with a segment by itself."""
    yield from content_flaws(authored.content)
    yield from place_flaws(authored.scope, authored.ref, authored.locale, authored.variant)
    yield from text_flaws(authored.tier, authored.type, authored.priority)
    if authored.id is not None and not 1 <= authored.id <= MAX_INT:
        yield Flaw("id", f"{authored.id} is no number of a segment", "count from 1")


def content_flaws(content: str) -> Iterator[Flaw]:
    """Name what is wrong with a text."""
    if not content.strip():
        yield Flaw("content", "it says nothing", "write a text, or leave the segment out")
    if not storable(content):
        yield Flaw("content", "NUL and lone surrogates cannot be stored", "take the character out")
    if len(content) > MAX_CONTENT:
        what = f"it has {len(content)} characters, the limit is {MAX_CONTENT}"
        yield Flaw("content", what, "make two segments of it")


def name_flaws(field: str, name: str) -> Iterator[Flaw]:
    """Name what is wrong with a name."""
    if re.fullmatch(NAME, name) is None:
        fix = "use lower case, digits, _ and -, beginning with a letter"
        yield Flaw(field, f"{name[:80]!r} is not a name", fix)


def place_flaws(scope: str, ref: str | None, locale: str | None, variant: str) -> Iterator[Flaw]:
    """Name what is wrong with where a segment belongs."""
    yield from name_flaws("scope", scope)
    yield from name_flaws("variant", variant)
    if ref is not None and re.fullmatch(ID, ref) is None:
        fix = "use letters, digits and _ . : -, at most 128, or leave it out"
        yield Flaw("ref", f"{ref[:80]!r} is not an id", fix)
    if locale is not None and re.fullmatch(LOCALE, locale) is None:
        fix = "use a language tag such as `en` or `pt-BR`, or leave it out"
        yield Flaw("locale", f"{locale[:80]!r} is not a locale", fix)


def text_flaws(tier: int, type: str, priority: str) -> Iterator[Flaw]:
    """Name what is wrong with what is said of a text."""
    if not 0 <= tier <= MAX_TIER:
        yield Flaw("tier", f"{tier} is no tier", f"use 0 to {MAX_TIER}")
    if type:
        yield from name_flaws("type", type)
    if priority not in PRIORITIES:
        yield Flaw("priority", f"{priority[:80]!r} is no priority", f"use {', '.join(PRIORITIES)}")
