"""The names by which a source is asked for: `document:handbook/returns`, `turn:SESSION/3`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from turnlog.events.content import DIGEST_PATTERN
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.sent_names import quote_sent_name
from turnlog.projections.uses.prompt_sources import build_entry_name, shorten_name
from turnlog.projections.uses.use_records import (
    EventNode,
    ResultNode,
    StoredSource,
    TextNode,
    TurnNode,
)

SOURCE_FORMS: Final = (
    "document:COLLECTION/ENTRY",
    "document:COLLECTION/ENTRY@REVISION",
    "import:COLLECTION/FILE",
    "segment:NUMBER",
    "segment:NUMBER@VERSION",
    "sha256:DIGEST",
    "turn:SESSION/TURN",
    "result:SESSION/CALL/ID",
    "event:SESSION/SEQUENCE",
    "label:LABEL",
)
"""The forms of a source's name."""

_NUMBER: Final = r"([1-9][0-9]{0,14})"

_DOCUMENT: Final = re.compile(rf"document:([^/]+)/(.+?)(?:@{_NUMBER})?", re.DOTALL)

_IMPORT: Final = re.compile(r"import:([^/]+)/(.+)", re.DOTALL)

_SEGMENT: Final = re.compile(rf"segment:{_NUMBER}(?:@{_NUMBER})?")

_TURN: Final = re.compile(rf"turn:([^/]+)/{_NUMBER}")

_RESULT: Final = re.compile(r"result:([^/]+)/([^/]+)/(.+)", re.DOTALL)

_EVENT: Final = re.compile(rf"event:([^/]+)/{_NUMBER}")

_LABEL: Final = re.compile(r"label:(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoughtSource:
    """A source that is asked for, by its name."""

    stored: StoredSource | None = None
    text: tuple[str, TextNode] | None = None
    """A text of a session, with the session."""
    imported: tuple[str, str] | None = None
    """A collection, and a file that entries of it were imported from."""
    tag: str | None = None
    """A tag that entries of the knowledge have."""


def parse_source_name(name: str) -> SoughtSource:
    """Return the source that a name stands for; raises `Refused` for what is no name of one."""
    if re.fullmatch(DIGEST_PATTERN, name):
        return SoughtSource(stored=StoredSource("digest", name))
    if found := _SEGMENT.fullmatch(name):
        return SoughtSource(stored=StoredSource("segment", found[1], _read_number(found[2])))
    if found := _DOCUMENT.fullmatch(name):
        entry = build_entry_name(found[1], found[2])
        return SoughtSource(stored=StoredSource("document", entry, _read_number(found[3])))
    if found := _IMPORT.fullmatch(name):
        return SoughtSource(imported=(found[1], found[2]))
    if found := _LABEL.fullmatch(name):
        return SoughtSource(stored=StoredSource("label", shorten_name(found[1])), tag=found[1])
    if (text := _parse_text(name)) is not None:
        return SoughtSource(text=text)
    fix = f"send one of: {', '.join(SOURCE_FORMS)}"
    raise Refused("invalid", f"{quote_sent_name(name)} names no source", field="source", fix=fix)


def _read_number(digits: str | None) -> int | None:
    return int(digits) if digits else None


def _parse_text(name: str) -> tuple[str, TextNode] | None:
    """Return the text of a session that a name stands for, or None."""
    if found := _TURN.fullmatch(name):
        return found[1], TurnNode(int(found[2]))
    if found := _EVENT.fullmatch(name):
        return found[1], EventNode(int(found[2]))
    if found := _RESULT.fullmatch(name):
        return found[1], ResultNode(found[2], found[3])
    return None
