"""Entries of Markdown, JSON and CSV files, and the faults of those that cannot be imported.

An entry knows its file and line, so a fault found here or by the service can name them. Ids are
stable: a row has its own, and otherwise it follows from the file's path and the place in it, so
that a second import edits the same entries.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Final, cast

from turnlog.events.content import compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.knowledge_events import EntryKind
from turnlog.projections.blueprint.bounded_json import InvalidJson, parse_embedded_json
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    FaultyBlueprint,
    find_near_word,
)
from turnlog.projections.knowledge.knowledge_inputs import EntryInput, find_entry_faults
from turnlog.services.cli.knowledge.markdown_chunks import split_markdown

ENTRY_FIELDS: Final = (
    "id",
    "text",
    "kind",
    "title",
    "tags",
    "attributes",
    "efficiency",
)

_SLUG_CHARACTERS: Final = 80

_ROW_FIELDS_FIX: Final = f"use {', '.join(ENTRY_FIELDS)}"


@dataclass(frozen=True, slots=True)
class FileEntry:
    """An entry with the place that it was read from."""

    file: str
    line: int
    entry: EntryInput

    def build_fault(self, path: str, what: str, fix: str) -> BlueprintFault:
        """Return a fault of this entry."""
        return BlueprintFault(file=self.file, line=self.line, path=path, what=what, fix=fix)


@dataclass(slots=True)
class ParsedKnowledge:
    """What all files gave."""

    files: list[list[FileEntry]] = field(default_factory=list[list[FileEntry]])
    """The entries of each file."""
    faults: list[BlueprintFault] = field(default_factory=list[BlueprintFault])


@dataclass(frozen=True, slots=True)
class _KnowledgeFile:
    path: Path
    source: str
    """The path within the imported folder."""
    text: str
    kind: EntryKind

    def build_id(self, number: int) -> str:
        """Return the id of an entry that has none of its own."""
        slug = re.sub(r"[^A-Za-z0-9_.-]+", "-", self.source).strip("-.")[-_SLUG_CHARACTERS:]
        digest = compute_digest(self.source).removeprefix("sha256:")[:8]
        return f"{slug.strip('-.') or 'file'}-{digest}:{number}"

    def build_fault(self, line: int, what: str, fix: str, path: str = "") -> FaultyBlueprint:
        """Return the fault that ends the reading of this file."""
        return FaultyBlueprint(
            [BlueprintFault(file=str(self.path), line=line, path=path, what=what, fix=fix)]
        )


def read_knowledge_files(paths: Sequence[Path], kind: EntryKind) -> ParsedKnowledge:
    """Read files, and all files of known formats below folders; collect the faults of all."""
    found = ParsedKnowledge(faults=list(_find_outside_links(paths)))
    for path, source in _iterate_files(paths):
        try:
            file = _KnowledgeFile(path, source, _decode_file(path), kind)
            entries = list(_PARSERS[path.suffix.lower()](file))
        except FaultyBlueprint as faulty:
            found.faults += faulty.faults
            continue
        found.files.append(entries)
        for each in entries:
            found.faults += [
                each.build_fault(fault.field, fault.what, fault.fix)
                for fault in find_entry_faults(each.entry)
            ]
    found.faults += _find_repeated_ids(found.files)
    return found


def _find_outside_links(paths: Iterable[Path]) -> Iterator[BlueprintFault]:
    """Yield a fault for each link to a file or folder outside the folder that is imported."""
    for folder in (path for path in paths if path.is_dir()):
        for path in sorted(folder.rglob("*")):
            is_importable = path.is_dir() or path.suffix.lower() in _PARSERS
            if is_importable and not _is_inside(path, folder):
                what, fix = "it is a link that leads outside the folder", "copy what it leads to"
                yield BlueprintFault(file=str(path), line=1, path="", what=what, fix=fix)


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _iterate_files(paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    for path in paths:
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                is_known = file.suffix.lower() in _PARSERS and file.is_file()
                if is_known and _is_inside(file, path):
                    yield file, file.relative_to(path).as_posix()
        elif path.suffix.lower() in _PARSERS:
            yield path, path.name
        else:
            detail = f"{path}: {path.suffix or 'a file without a suffix'} is not a known format"
            fix = f"give a folder, or one of {', '.join(_PARSERS)}"
            raise Refused("bad-option", detail, field="PATH", fix=fix)


def _decode_file(path: Path) -> str:
    stored = path.read_bytes()
    try:
        return stored.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = stored.count(b"\n", 0, error.start) + 1
        what, fix = f"byte {error.start} is not UTF-8", "save it as UTF-8"
        raise FaultyBlueprint(
            [BlueprintFault(file=str(path), line=line, path="", what=what, fix=fix)]
        ) from None


def _find_repeated_ids(files: Iterable[Iterable[FileEntry]]) -> list[BlueprintFault]:
    first = dict[str, FileEntry]()
    faults: list[BlueprintFault] = []
    for each in (entry for entries in files for entry in entries):
        before = first.setdefault(each.entry.id, each)
        if before is not each:
            what = f"{each.entry.id} is also the id of {before.file}:{before.line}"
            faults.append(each.build_fault("id", what, "give each entry an id of its own"))
    return faults


def _read_markdown(file: _KnowledgeFile) -> Iterator[FileEntry]:
    chunks = list(split_markdown(file.text))
    if not chunks:
        raise file.build_fault(1, "the file is empty", "write a text, or remove the file")
    for number, chunk in enumerate(chunks, start=1):
        title = chunk.title or Path(file.source).stem
        entry = EntryInput(
            id=file.build_id(number),
            text=chunk.text,
            kind=file.kind,
            title=title,
            source=file.source,
        )
        yield FileEntry(str(file.path), chunk.line, entry)


def _read_csv(file: _KnowledgeFile) -> Iterator[FileEntry]:
    reader = csv.reader(StringIO(file.text, newline=""), strict=True)
    try:
        header = next(reader, None)
        if header is None or "text" not in header:
            what = "the first line has no column `text`"
            raise file.build_fault(1, what, _ROW_FIELDS_FIX)
        line = reader.line_num
        for number, cells in enumerate(reader, start=1):
            first, line = line + 1, reader.line_num
            if not any(cells):
                continue
            if len(cells) != len(header):
                what = f"{len(cells)} values for {len(header)} columns"
                raise file.build_fault(first, what, "quote values that contain commas")
            values = {
                name: _convert_cell(name, cell)
                for name, cell in zip(header, cells, strict=True)
                if cell
            }
            yield _build_entry(file, first, number, values)
    except csv.Error as error:
        raise file.build_fault(reader.line_num, str(error), "close the quotes") from None


def _convert_cell(name: str, cell: str) -> object:
    if name == "tags":
        return [tag.strip() for tag in cell.split(";") if tag.strip()]
    if name == "attributes":
        pairs = (pair.partition("=") for pair in cell.split(";") if pair.strip())
        return {key.strip(): value.strip() for key, _, value in pairs}
    if name == "efficiency":
        try:
            return float(cell)
        except ValueError:
            return cell
    return cell


def _read_json(file: _KnowledgeFile) -> Iterator[FileEntry]:
    for number, (line, value) in enumerate(_iterate_json_items(file), start=1):
        if not isinstance(value, dict):
            raise file.build_fault(line, "an entry is no object", _ROW_FIELDS_FIX)
        yield _build_entry(file, line, number, cast("dict[str, object]", value))


def _iterate_json_items(file: _KnowledgeFile) -> Iterator[tuple[int, object]]:
    """Yield the items of the list that the file is, each with its line."""
    text = file.text
    begin = re.compile(r"\s*\[\s*").match(text)
    if begin is None:
        raise file.build_fault(1, "it is no list", "write a list of objects: [{...}, ...]")
    at = begin.end()
    while not text.startswith("]", at):
        line = text.count("\n", 0, at) + 1
        try:
            value, at = parse_embedded_json(text, at, as_written=True)
        except json.JSONDecodeError as error:
            raise file.build_fault(error.lineno, error.msg, "correct the JSON") from None
        except InvalidJson as error:
            fix = "flatten it" if error.reason == "too-deep" else "correct the JSON"
            raise file.build_fault(line, str(error), fix) from None
        yield line, value
        separator = re.compile(r"\s*(,\s*|(?=\]))").match(text, at)
        if separator is None:
            line = text.count("\n", 0, at) + 1
            raise file.build_fault(line, "a comma or ] is missing", "correct the JSON")
        at = separator.end()
    if text[at + 1 :].strip():
        line = text.count("\n", 0, at) + 1
        raise file.build_fault(line, "something follows the list", "remove it")


def _build_entry(
    file: _KnowledgeFile, line: int, number: int, values: Mapping[str, object]
) -> FileEntry:
    for name in values:
        if name not in ENTRY_FIELDS:
            near = find_near_word(name, ENTRY_FIELDS)
            fix = f"write `{near}`" if near else _ROW_FIELDS_FIX
            raise file.build_fault(line, f"an entry has no field {name[:80]!r}", fix, name[:80])
    for name, value in values.items():
        expected = _FIELD_TYPES[name]
        if not expected.is_valid(value):
            raise file.build_fault(line, f"it is not {expected.words}", expected.fix, name)
    entry = EntryInput(
        id=str(values.get("id") or file.build_id(number)),
        text=str(values.get("text", "")),
        kind=cast("EntryKind", values.get("kind", file.kind)),
        title=str(values.get("title", "")),
        source=file.source,
        tags=tuple(cast("list[str]", values.get("tags", []))),
        attributes=cast("dict[str, str]", values.get("attributes", {})),
        efficiency=cast("float | None", values.get("efficiency")),
    )
    return FileEntry(str(file.path), line, entry)


@dataclass(frozen=True, slots=True)
class _FieldType:
    words: str
    fix: str
    is_valid: Callable[[object], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, cast("list[object]", value)))


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, cast("dict[str, object]", value).values()))


_TEXT: Final = _FieldType("a text", "write a text", _is_text)

_FIELD_TYPES: Final[Mapping[str, _FieldType]] = {
    "id": _TEXT,
    "text": _TEXT,
    "title": _TEXT,
    "kind": _FieldType(
        "`case` or `document`", "write one of both", lambda value: value in ("case", "document")
    ),
    "tags": _FieldType("a list of texts", 'write ["one", "two"], in CSV `one;two`', _is_text_list),
    "attributes": _FieldType(
        "an object of texts", 'write {"name": "value"}, in CSV `name=value`', _is_text_map
    ),
    "efficiency": _FieldType("a number", "use a number from 0 to 1", _is_number),
}

ParseFile = Callable[[_KnowledgeFile], Iterator[FileEntry]]

_PARSERS: Final[Mapping[str, ParseFile]] = {
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".json": _read_json,
    ".csv": _read_csv,
}
