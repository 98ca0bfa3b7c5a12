from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turnlog.projections.blueprint.document import Most, document
from turnlog.projections.blueprint.faults import Fault, FaultyBlueprint
from turnlog.services.cli.importing.rows import Row

_MOST: Final = Most(8_000_000, 400_000, "make two files of it")
_FORM: Final = "write a list of segments, each with at least `scope` and `content`"


def rows(text: str, file: str) -> Iterator[Row]:
    """Yield the rows of a YAML file: a list of mappings, or such a list under `segments`.

    Raises `FaultyBlueprint` if it is not one.
    """
    read = document(text, file, _MOST)
    if read.faults:
        raise FaultyBlueprint(read.faults)
    within = ("segments",) if isinstance(read.value, dict) and "segments" in read.value else ()
    found = read.value["segments"] if within and isinstance(read.value, dict) else read.value
    if not isinstance(found, list):
        raise FaultyBlueprint([Fault(file, 1, "", "it is no list of segments", _FORM)])
    for number, given in enumerate(found):
        path = (*within, number)
        line = read.lines.get(path, 1)
        if not isinstance(given, dict):
            raise FaultyBlueprint([Fault(file, line, "", "it is no segment", _FORM)])
        lines = {name: read.lines.get((*path, name), line) for name in given}
        yield Row(file, line, given, lines)
