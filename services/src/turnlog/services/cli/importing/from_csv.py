from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO

from turnlog.projections.blueprint.faults import BlueprintFault, FaultyBlueprint
from turnlog.services.cli.importing.rows import ROW_FIELDS, ImportedSegmentRow


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
            raise FaultyBlueprint([BlueprintFault(file, 1, "", "no columns `scope` and `content`", fix)])
        line = reading.line_num + 1
        for cells in reading:
            if cells:
                yield _build_csv_row(file, line, names, cells)
            line = reading.line_num + 1
    except csv.Error as error:
        fix = "quote a cell that holds commas, quotes or line ends"
        raise FaultyBlueprint([BlueprintFault(file, line, "", str(error), fix)]) from None


def _build_csv_row(file: str, line: int, names: list[str], cells: list[str]) -> ImportedSegmentRow:
    if len(cells) != len(names):
        what = f"it has {len(cells)} cells, and there are {len(names)} columns"
        fix = "quote a cell that holds commas, or add what is missing"
        raise FaultyBlueprint([BlueprintFault(file, line, "", what, fix)])
    return ImportedSegmentRow(file, line, dict(zip(names, cells, strict=True)))
