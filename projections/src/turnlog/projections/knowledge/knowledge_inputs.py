"""Knowledge commands, and the rules that an entry must meet by itself.

The same rules hold for HTTP, the command line and imports.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.knowledge_events import EntryKind, KnowledgeEntry
from turnlog.events.storable_text import is_storable
from turnlog.projections.blueprint.schema.strict_model import ID_PATTERN
from turnlog.projections.blueprint.sent_names import quote_sent_name

COLLECTION_PATTERN: Final = r"^[a-z][a-z0-9_-]{0,63}$"

MAX_TEXT_BYTES: Final = 32_000
"""Maximum bytes of a text; the hits of one search then fit into one message."""

MAX_TITLE_CHARACTERS: Final = 300

MAX_SOURCE_CHARACTERS: Final = 500

MAX_TAGS: Final = 32

MAX_ATTRIBUTES: Final = 32

MAX_VALUE_CHARACTERS: Final = 1_000
"""Maximum characters of a tag, of an attribute's name and of its value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryInput:
    """An entry as an author submits it."""

    id: str
    text: str
    kind: EntryKind = "document"
    title: str = ""
    source: str | None = None
    tags: tuple[str, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    efficiency: float | None = None

    def describe(self) -> KnowledgeEntry:
        """Return the description of the entry that an event records."""
        return KnowledgeEntry(
            id=self.id,
            kind=self.kind,
            title=self.title,
            digest=compute_digest(self.text),
            characters=len(self.text),
            source=self.source,
            tags=self.tags,
            attributes=dict(sorted(self.attributes.items())),
            efficiency=self.efficiency,
        )


@dataclass(frozen=True, slots=True)
class PutEntries:
    """Add entries or change them so that they are as given; what is already so does not change."""

    collection: str
    entries: tuple[EntryInput, ...]
    replace_sources: bool = False
    """Whether entries that came from the same sources before, and are not given now, go."""


@dataclass(frozen=True, slots=True)
class RemoveEntries:
    """Remove entries of a collection, or all of them."""

    collection: str
    entries: tuple[str, ...] | None = None
    """Their ids; None removes the collection."""


KnowledgeCommand = PutEntries | RemoveEntries


@dataclass(frozen=True, slots=True)
class EntryFault:
    """A fault of one field of an entry, with a fix."""

    field: str
    what: str
    fix: str


def check_collection_name(collection: str) -> None:
    """Raise `Refused` for what is no name of a collection."""
    if re.fullmatch(COLLECTION_PATTERN, collection) is None:
        detail = f"{quote_sent_name(collection)} is not a name of a collection"
        fix = "use lower case, digits, _ and -, beginning with a letter, at most 64"
        raise Refused("invalid", detail, field="collection", fix=fix)


def find_entry_faults(entry: EntryInput) -> Iterator[EntryFault]:
    """Yield all faults that an entry has by itself."""
    if re.fullmatch(ID_PATTERN, entry.id) is None:
        fix = "use letters, digits and _ . : -, at most 128"
        yield EntryFault("id", f"{quote_sent_name(entry.id)} is not an id", fix)
    yield from _find_text_faults(entry)
    yield from _find_property_faults(entry)
    if entry.efficiency is not None:
        if entry.kind != "case":
            yield EntryFault("efficiency", "only a case has an efficiency", "leave it out")
        elif not (math.isfinite(entry.efficiency) and 0 <= entry.efficiency <= 1):
            yield EntryFault("efficiency", "it is no efficiency", "use a number from 0 to 1")


def _find_text_faults(entry: EntryInput) -> Iterator[EntryFault]:
    if not entry.text.strip():
        yield EntryFault("text", "the text is empty", "write a text, or leave the entry out")
        return
    if not is_storable(entry.text):
        fix = "remove the character"
        yield EntryFault("text", "NUL and lone surrogates cannot be stored", fix)
        return
    size = len(entry.text.encode())
    if size > MAX_TEXT_BYTES:
        what = f"it has {size} bytes, the limit is {MAX_TEXT_BYTES}"
        yield EntryFault("text", what, "split it into several entries")


def _find_property_faults(entry: EntryInput) -> Iterator[EntryFault]:
    lines = {"title": entry.title, "source": entry.source or ""}
    limits = {"title": MAX_TITLE_CHARACTERS, "source": MAX_SOURCE_CHARACTERS}
    for name, line in lines.items():
        if len(line) > limits[name] or not is_storable(line):
            what = f"it has {len(line)} characters, or one that cannot be stored"
            yield EntryFault(name, what, f"use at most {limits[name]}")
    if len(entry.tags) > MAX_TAGS:
        yield EntryFault("tags", f"{len(entry.tags)} tags", f"use at most {MAX_TAGS}")
    if len(entry.attributes) > MAX_ATTRIBUTES:
        what = f"{len(entry.attributes)} attributes"
        yield EntryFault("attributes", what, f"use at most {MAX_ATTRIBUTES}")
    words = {"tags": entry.tags, "attributes": (*entry.attributes, *entry.attributes.values())}
    for name, values in words.items():
        if any(len(each) > MAX_VALUE_CHARACTERS or not is_storable(each) for each in values):
            what = "one is too long, or has a character that cannot be stored"
            yield EntryFault(name, what, f"use at most {MAX_VALUE_CHARACTERS} characters")
