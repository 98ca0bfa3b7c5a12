"""Read segment files; the file name's extension selects the parser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    FaultyBlueprint,
)
from turnlog.services.cli.segment_import import import_rows, sql_dumps
from turnlog.services.cli.segment_import.import_rows import ImportedSegmentRow, ParsedSegments

RowParser = Callable[[str, str], Iterator[ImportedSegmentRow]]

ROW_PARSERS: Final[Mapping[str, RowParser]] = {
    ".yaml": import_rows.read_yaml_rows,
    ".yml": import_rows.read_yaml_rows,
    ".csv": import_rows.read_csv_rows,
    ".sql": sql_dumps.read_sql_rows,
}


def read_segment_files(files: Sequence[Path]) -> ParsedSegments:
    """Read all files and collect the faults of all of them."""
    found = ParsedSegments()
    for file in files:
        try:
            for row in _choose_parser(file)(_decode_file(file), str(file)):
                found.add_row(row)
        except FaultyBlueprint as faulty:
            found.faults += faulty.faults
    return found


def _choose_parser(file: Path) -> RowParser:
    form = ROW_PARSERS.get(file.suffix.lower())
    if form is None:
        detail = f"{file}: nobody knows how to read {file.suffix or 'it'}"
        raise Refused(
            "bad-option", detail, field="FILE", fix=f"give one of {', '.join(ROW_PARSERS)}"
        )
    return form


def _decode_file(file: Path) -> str:
    stored = file.read_bytes()
    try:
        return stored.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = stored.count(b"\n", 0, error.start) + 1
        fault = BlueprintFault(
            str(file), line, "", f"byte {error.start} is not UTF-8", "save it as UTF-8"
        )
        raise FaultyBlueprint([fault]) from None
