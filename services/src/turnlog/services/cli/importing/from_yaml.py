from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turnlog.projections.blueprint.document import YamlLimits, load_yaml
from turnlog.projections.blueprint.faults import BlueprintFault, FaultyBlueprint
from turnlog.services.cli.importing.rows import ImportedSegmentRow

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
        raise FaultyBlueprint([BlueprintFault(file, 1, "", "it is no list of segments", _YAML_FIX)])
    for number, given in enumerate(found):
        path = (*within, number)
        line = read.lines.get(path, 1)
        if not isinstance(given, dict):
            raise FaultyBlueprint([BlueprintFault(file, line, "", "it is no segment", _YAML_FIX)])
        lines = {name: read.lines.get((*path, name), line) for name in given}
        yield ImportedSegmentRow(file, line, given, lines)
