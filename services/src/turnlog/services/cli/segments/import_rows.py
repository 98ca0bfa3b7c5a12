"""Rows of segment files, their CSV and YAML parsers, and their validation.

A row knows its file and line, so a fault found here or by the service can name them. The field
names are those of the segment table: `ref_id` is a reference, `metadata` holds tier, type and
priority, and an empty value counts as missing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Final

from pydantic import JsonValue

from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_json
from turnlog.projections.blueprint.loading.yaml_document import YamlLimits, load_yaml
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    FaultyBlueprint,
    suggest_word,
)
from turnlog.projections.library.segment_inputs import SegmentInput, find_segment_faults

METADATA_FIELDS: Final = ("tier", "type", "priority")

ROW_FIELDS: Final = (
    "id",
    "scope",
    "ref",
    "content",
    *METADATA_FIELDS,
    "active",
    "locale",
    "variant",
    "version",
)

KNOWN_FIELDS: Final = (*ROW_FIELDS, "ref_id", "metadata")

DIGITS: Final = re.compile(r"[0-9]{1,15}")
"""A whole number of a file; longer ones are none that an event can hold."""

_TRUE_WORDS: Final = frozenset({"true", "t", "1", "yes"})

_FALSE_WORDS: Final = frozenset({"false", "f", "0", "no"})


@dataclass(frozen=True, slots=True)
class ImportedSegmentRow:
    """One segment of a file."""

    file: str
    line: int
    values: Mapping[str, JsonValue]
    field_lines: Mapping[str, int] = field(default_factory=dict[str, int])
    """Lines of its fields, where they differ from `line`."""

    def build_fault(self, name: str, what: str, fix: str) -> BlueprintFault:
        """Return a fault of one field."""
        return BlueprintFault(
            file=self.file,
            line=self.field_lines.get(name, self.line),
            path=name,
            what=what,
            fix=fix,
        )


@dataclass(slots=True)
class ParsedSegments:
    """The valid segments of the files, each with its row, and all faults."""

    segments: list[tuple[ImportedSegmentRow, SegmentInput]] = field(
        default_factory=list[tuple[ImportedSegmentRow, SegmentInput]]
    )
    faults: list[BlueprintFault] = field(default_factory=list[BlueprintFault])

    @property
    def inputs(self) -> list[SegmentInput]:
        """The segments without their rows."""
        return [authored for _, authored in self.segments]

    def add_row(self, row: ImportedSegmentRow) -> None:
        """Validate a row and add its segment or its faults."""
        reading = _RowReader(row)
        authored = reading.read_segment()
        self.faults += reading.faults
        if not reading.faults:
            self.segments.append((row, authored))


@dataclass(slots=True)
class _RowReader:
    row: ImportedSegmentRow
    faults: list[BlueprintFault] = field(default_factory=list[BlueprintFault])

    def read_segment(self) -> SegmentInput:
        values = {name: value for name, value in self._list_fields() if value not in (None, "")}
        authored = SegmentInput(
            scope=self._read_text(values, "scope", ""),
            content=self._read_text(values, "content", ""),
            ref=self._read_text(values, "ref", None),
            locale=self._read_text(values, "locale", None),
            tier=self._read_number(values, "tier") or 0,
            type=self._read_text(values, "type", ""),
            priority=self._read_text(values, "priority", "normal"),
            variant=self._read_text(values, "variant", "a"),
            active=self._read_flag(values, "active"),
            id=self._read_number(values, "id"),
            version=self._read_number(values, "version"),
        )
        if not self.faults:
            self.faults += (
                self.row.build_fault(f.field, f.what, f.fix) for f in find_segment_faults(authored)
            )
        return authored

    def _list_fields(self) -> Iterator[tuple[str, JsonValue]]:
        for name, value in self.row.values.items():
            if name not in KNOWN_FIELDS:
                self._add_fault(name, "no such field", suggest_word(name, ROW_FIELDS))
            elif name == "metadata":
                yield from self._read_metadata(value).items()
            else:
                yield ("ref" if name == "ref_id" else name), value

    def _read_metadata(self, value: JsonValue) -> dict[str, JsonValue]:
        try:
            found = (
                parse_json(value, as_written=True) if isinstance(value, str) and value else value
            )
        except InvalidJson:
            found = value
        if found is None or found == "":
            return {}
        if not isinstance(found, dict):
            self._add_fault(
                "metadata", "it is not an object", "write tier, type and priority as JSON"
            )
            return {}
        for name in found:
            if name not in METADATA_FIELDS:
                what = f"metadata has no {name[:80]!r}"
                self._add_fault("metadata", what, suggest_word(name, METADATA_FIELDS))
        return {name: found[name] for name in METADATA_FIELDS if name in found}

    def _read_text(self, values: Mapping[str, JsonValue], name: str, default: str | None) -> str:
        value = values.get(name, default)
        if value is None or isinstance(value, str):
            return value  # type: ignore[return-value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        self._add_fault(name, "it is not a text", "write a text")
        return ""

    def _read_number(self, values: Mapping[str, JsonValue], name: str) -> int | None:
        value = values.get(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        if isinstance(value, str) and DIGITS.fullmatch(value.strip()):
            return int(value)
        self._add_fault(name, f"{str(value)[:80]!r} is no whole number", "write a whole number")
        return None

    def _read_flag(self, values: Mapping[str, JsonValue], name: str) -> bool:
        value = values.get(name, True)
        word = str(value).strip().lower()
        if word not in _TRUE_WORDS | _FALSE_WORDS:
            self._add_fault(name, f"{word[:80]!r} is neither true nor false", "write true or false")
        return word in _TRUE_WORDS

    def _add_fault(self, name: str, what: str, fix: str) -> None:
        self.faults.append(self.row.build_fault(name, what, fix))


def read_csv_rows(text: str, file: str) -> Iterator[ImportedSegmentRow]:
    """Yield the rows of a CSV file: column names, then one segment per record.

    An empty cell means no value. Raises `FaultyBlueprint` if the file cannot be read.
    """
    reading = csv.reader(StringIO(text, newline=""), strict=True)
    line = 1
    try:
        names = [name.strip().lower() for name in next(reading, list[str]())]
        if not {"scope", "content"} <= set(names):
            fix = f"begin with a line of column names, such as {','.join(ROW_FIELDS)}"
            raise FaultyBlueprint(
                [
                    BlueprintFault(
                        file=file, line=1, path="", what="no columns `scope` and `content`", fix=fix
                    )
                ]
            )
        line = reading.line_num + 1
        for cells in reading:
            if cells:
                yield _build_csv_row(file, line, names, cells)
            line = reading.line_num + 1
    except csv.Error as error:
        fix = "quote a cell that holds commas, quotes or line ends"
        raise FaultyBlueprint(
            [BlueprintFault(file=file, line=line, path="", what=str(error), fix=fix)]
        ) from None


def _build_csv_row(file: str, line: int, names: list[str], cells: list[str]) -> ImportedSegmentRow:
    if len(cells) != len(names):
        what = f"it has {len(cells)} cells, and there are {len(names)} columns"
        fix = "quote a cell that holds commas, or add what is missing"
        raise FaultyBlueprint([BlueprintFault(file=file, line=line, path="", what=what, fix=fix)])
    return ImportedSegmentRow(file, line, dict(zip(names, cells, strict=True)))


_YAML_LIMITS: Final = YamlLimits(8_000_000, 400_000, "make two files of it")

_YAML_FIX: Final = "write a list of segments, each with at least `scope` and `content`"


def read_yaml_rows(text: str, file: str) -> Iterator[ImportedSegmentRow]:
    """Yield the rows of a YAML file: a list of mappings, or such a list under `segments`.

    Raises `FaultyBlueprint` if it is not one.
    """
    read = load_yaml(text, file, _YAML_LIMITS)
    if read.faults:
        raise FaultyBlueprint(read.faults)
    within = ("segments",) if isinstance(read.value, dict) and "segments" in read.value else ()
    found = read.value["segments"] if within and isinstance(read.value, dict) else read.value
    if not isinstance(found, list):
        raise FaultyBlueprint(
            [
                BlueprintFault(
                    file=file, line=1, path="", what="it is not a list of segments", fix=_YAML_FIX
                )
            ]
        )
    for number, row in enumerate(found):
        path = (*within, number)
        line = read.lines.get(path, 1)
        if not isinstance(row, dict):
            raise FaultyBlueprint(
                [
                    BlueprintFault(
                        file=file, line=line, path="", what="it is not a segment", fix=_YAML_FIX
                    )
                ]
            )
        lines = {name: read.lines.get((*path, name), line) for name in row}
        yield ImportedSegmentRow(file, line, row, lines)
