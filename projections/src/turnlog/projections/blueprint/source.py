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
    """A blueprint with the lines of its file, for further checks."""

    blueprint: Blueprint
    file: str
    lines: Lines

    def fault(self, remark: Remark) -> Fault:
        """Add the line of a finding."""
        return located(self.file, self.lines, remark)


def alone(folder: str) -> tuple[tuple[str, str], ...]:
    """Return no files, for a blueprint without folders."""
    del folder
    return ()


def read_source(text: str, file: str = BLUEPRINT_FILE, beside: Beside = alone) -> Source:
    """Load a blueprint; raise `FaultyBlueprint` with all faults."""
    written = with_servers(document(text, file), file, beside)
    if any(fault.file != file for fault in written.faults):
        raise FaultyBlueprint(written.faults)
    try:
        # Strict and from JSON, so that "8000" is not a number while lists may become tuples.
        blueprint = Blueprint.model_validate_json(json.dumps(written.value), strict=True)
    except ValidationError as error:
        found = [located(file, written.lines, remark) for remark in remarks_on(error)]
        raise FaultyBlueprint([*written.faults, *found]) from None
    source = Source(blueprint, file, written.lines)
    crossed = [source.fault(remark) for remark in crosschecked(blueprint)]
    if faults := [*written.faults, *crossed]:
        raise FaultyBlueprint(faults)
    return source
