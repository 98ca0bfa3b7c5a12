"""Rows of segment files, their CSV and YAML parsers, and their validation.

A row knows its file and line, so a fault found here or by the service can name them. The field
names are those of the segment table: `ref_id` is a reference, `metadata` holds tier, type and
priority, and an empty value counts as missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from turnlog.projections.blueprint.faults import Fault, instead_of
from turnlog.projections.library.authored import Authored, flaws

METADATA: Final = ("tier", "type", "priority")
FIELDS: Final = ("id", "scope", "ref", "content", *METADATA, "active", "locale", "variant")
KNOWN: Final = (*FIELDS, "ref_id", "metadata", "version")
"""`version` is accepted and ignored, because the library counts versions itself."""
_DIGITS: Final = re.compile(r"[0-9]{1,15}")
_YES: Final = frozenset({"true", "t", "1", "yes"})
_NO: Final = frozenset({"false", "f", "0", "no"})


@dataclass(frozen=True, slots=True)
class Row:
    """One segment of a file."""

    file: str
    line: int
    given: Mapping[str, JsonValue]
    lines: Mapping[str, int] = field(default_factory=dict[str, int])
    """Lines of its fields, where they differ from `line`."""

    def fault(self, name: str, what: str, fix: str) -> Fault:
        """Return a fault of one field."""
        return Fault(self.file, self.lines.get(name, self.line), name, what, fix)


@dataclass(slots=True)
class Understood:
    """The valid segments of the files, each with its row, and all faults."""

    segments: list[tuple[Row, Authored]] = field(default_factory=list[tuple[Row, Authored]])
    faults: list[Fault] = field(default_factory=list[Fault])

    def take(self, row: Row) -> None:
        """Validate a row and add its segment or its faults."""
        reading = _Reading(row)
        authored = reading.authored()
        self.faults += reading.faults
        if not reading.faults:
            self.segments.append((row, authored))


@dataclass(slots=True)
class _Reading:
    row: Row
    faults: list[Fault] = field(default_factory=list[Fault])

    def authored(self) -> Authored:
        given = {name: value for name, value in self._fields() if value not in (None, "")}
        authored = Authored(
            scope=self._text(given, "scope", ""),
            content=self._text(given, "content", ""),
            ref=self._text(given, "ref", None),
            locale=self._text(given, "locale", None),
            tier=self._number(given, "tier") or 0,
            type=self._text(given, "type", ""),
            priority=self._text(given, "priority", "normal"),
            variant=self._text(given, "variant", "a"),
            active=self._flag(given, "active"),
            id=self._number(given, "id"),
        )
        if not self.faults:
            self.faults += (self.row.fault(f.field, f.what, f.fix) for f in flaws(authored))
        return authored

    def _fields(self) -> Iterator[tuple[str, JsonValue]]:
        for name, value in self.row.given.items():
            if name not in KNOWN:
                self._note(name, "no such field", instead_of(name, FIELDS))
            elif name == "metadata":
                yield from self._metadata(value).items()
            else:
                yield ("ref" if name == "ref_id" else name), value

    def _metadata(self, value: JsonValue) -> dict[str, JsonValue]:
        try:
            found: JsonValue = json.loads(value) if isinstance(value, str) and value else value
        except ValueError:
            found = value
        if found is None or found == "":
            return {}
        if not isinstance(found, dict):
            self._note("metadata", "it is no object", "write tier, type and priority as JSON")
            return {}
        for name in found:
            if name not in METADATA:
                what = f"metadata has no {name[:80]!r}"
                self._note("metadata", what, instead_of(name, METADATA))
        return {name: found[name] for name in METADATA if name in found}

    def _text(self, given: Mapping[str, JsonValue], name: str, default: str | None) -> str:
        value = given.get(name, default)
        if value is None or isinstance(value, str):
            return value  # type: ignore[return-value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        self._note(name, "it is no text", "write a text")
        return ""

    def _number(self, given: Mapping[str, JsonValue], name: str) -> int | None:
        value = given.get(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
            return int(value)
        self._note(name, f"{str(value)[:80]!r} is no whole number", "write a whole number")
        return None

    def _flag(self, given: Mapping[str, JsonValue], name: str) -> bool:
        value = given.get(name, True)
        spelt = str(value).strip().lower()
        if spelt not in _YES | _NO:
            self._note(name, f"{spelt[:80]!r} is neither true nor false", "write true or false")
        return spelt in _YES

    def _note(self, name: str, what: str, fix: str) -> None:
        self.faults.append(self.row.fault(name, what, fix))
