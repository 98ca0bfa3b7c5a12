"""Read segment files; the file name's extension selects the parser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import Fault, FaultyBlueprint
from turnlog.services.cli.importing import from_csv, from_sql, from_yaml
from turnlog.services.cli.importing.rows import Row, Understood

Rows = Callable[[str, str], Iterator[Row]]

FORMS: Final[Mapping[str, Rows]] = {
    ".yaml": from_yaml.rows,
    ".yml": from_yaml.rows,
    ".csv": from_csv.rows,
    ".sql": from_sql.rows,
}


def understood(files: Sequence[Path]) -> Understood:
    """Read all files and collect the faults of all of them."""
    found = Understood()
    for file in files:
        try:
            for row in _form(file)(_text(file), str(file)):
                found.take(row)
        except FaultyBlueprint as faulty:
            found.faults += faulty.faults
    return found


def _form(file: Path) -> Rows:
    form = FORMS.get(file.suffix.lower())
    if form is None:
        detail = f"{file}: nobody knows how to read {file.suffix or 'it'}"
        raise Refused("bad-option", detail, field="FILE", fix=f"give one of {', '.join(FORMS)}")
    return form


def _text(file: Path) -> str:
    stored = file.read_bytes()
    try:
        return stored.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = stored.count(b"\n", 0, error.start) + 1
        fault = Fault(str(file), line, "", f"byte {error.start} is not UTF-8", "save it as UTF-8")
        raise FaultyBlueprint([fault]) from None
