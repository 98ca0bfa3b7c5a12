"""How callers describe a session: by a title, labels, and metadata of their own.

People find a session by its title and labels, and an application by its metadata. No prompt has any
of them, and no rule reads them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.storable_json import JsonObject, check_json, check_text

MAX_METADATA_BYTES: Final = 16_000
"""Limit on the JSON text of a session's metadata, in UTF-8."""

_LINE_BREAKING: Final = frozenset({"Cc", "Zl", "Zp"})
"""Unicode categories of control characters and of line and paragraph separators."""

_INVISIBLE: Final = "CZ"
"""First letters of the categories of characters that show nothing by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionDescription:
    """What a caller states of a session; a field that is None is not stated."""

    title: str | None = None
    """The title; empty for none."""
    labels: tuple[str, ...] | None = None
    """All labels."""
    metadata: JsonObject | None = None
    """The metadata, or the merge patch of those that there are (RFC 7396)."""


NO_DESCRIPTION: Final = SessionDescription()


def check_description(stated: SessionDescription) -> SessionDescription:
    """Return a description as it may be recorded: a label that is repeated counts once.

    Raises `Refused` naming the field, without repeating anything of its value.
    """
    if stated.title:
        _check_line(stated.title, "title")
    for place, label in enumerate(stated.labels or ()):
        _check_line(label, f"labels.{place}")
    check_metadata(stated.metadata or {})
    labels = None if stated.labels is None else tuple(dict.fromkeys(stated.labels))
    return SessionDescription(title=stated.title, labels=labels, metadata=stated.metadata)


def check_metadata(metadata: Mapping[str, JsonValue]) -> None:
    """Raise `Refused` for metadata that cannot be stored, and `TooLarge` for too much of it."""
    check_json(metadata, "metadata", MAX_METADATA_BYTES)


def _check_line(text: str, field: str) -> None:
    """Refuse a text that is more than one line, or that shows nothing in a list."""
    check_text(text, field)
    categories = {unicodedata.category(character) for character in text}
    if categories & _LINE_BREAKING:
        fix = "leave out line breaks and control characters"
        raise Refused("invalid", "the text is not one line", field=field, fix=fix)
    if all(category[0] in _INVISIBLE for category in categories):
        raise Refused("invalid", "the text is blank", field=field, fix="leave it out")


def merge_metadata(metadata: JsonObject, patch: JsonObject) -> JsonObject:
    """Return metadata with a JSON merge patch (RFC 7396) applied: null removes a key."""
    merged = dict(metadata)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            before = merged.get(key)
            merged[key] = merge_metadata(before if isinstance(before, dict) else {}, value)
        else:
            merged[key] = value
    return merged
