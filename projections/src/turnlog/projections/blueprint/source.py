"""The source of a blueprint: the text its author wrote becomes a `Blueprint`, or all its faults.

Everything that can be known without looking at other files is checked here: the YAML, the
words, and that every name one part uses is a name another part defines.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from turnlog.projections.blueprint.crosschecks import crosschecked
from turnlog.projections.blueprint.document import document
from turnlog.projections.blueprint.faults import Fault, FaultyBlueprint, Lines, Remark, located
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.server_files import Beside, with_servers
from turnlog.projections.blueprint.wording import remarks_on

BLUEPRINT_FILE: Final = "blueprint.yaml"


@dataclass(frozen=True, slots=True)
class Source:
    """A blueprint with the lines it was written on, for whoever has more to check."""

    blueprint: Blueprint
    file: str
    lines: Lines

    def fault(self, remark: Remark) -> Fault:
        """Give a remark the line it is about."""
        return located(self.file, self.lines, remark)


def alone(folder: str) -> tuple[tuple[str, str], ...]:
    """Give the files of a folder beside a blueprint that has none."""
    del folder
    return ()


def read_source(text: str, file: str = BLUEPRINT_FILE, beside: Beside = alone) -> Source:
    """Read what an author wrote; raises `FaultyBlueprint` with everything that is wrong."""
    written = with_servers(document(text, file), file, beside)
    if any(fault.file != file for fault in written.faults):
        raise FaultyBlueprint(written.faults)
    try:
        # Strict, and by way of JSON: "8000" is no number, and lists may become tuples.
        blueprint = Blueprint.model_validate_json(json.dumps(written.value), strict=True)
    except ValidationError as error:
        found = [located(file, written.lines, remark) for remark in remarks_on(error)]
        raise FaultyBlueprint([*written.faults, *found]) from None
    source = Source(blueprint, file, written.lines)
    crossed = [source.fault(remark) for remark in crosschecked(blueprint)]
    if faults := [*written.faults, *crossed]:
        raise FaultyBlueprint(faults)
    return source
