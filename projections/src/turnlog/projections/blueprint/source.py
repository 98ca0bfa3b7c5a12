from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from turnlog.projections.blueprint.crosschecks import check_blueprint
from turnlog.projections.blueprint.document import load_yaml
from turnlog.projections.blueprint.faults import BlueprintFault, FaultyBlueprint, LineNumbers, BlueprintFinding, locate_finding
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.server_files import FolderReader, insert_server_files
from turnlog.projections.blueprint.wording import explain_validation_error

BLUEPRINT_FILE: Final = "blueprint.yaml"


@dataclass(frozen=True, slots=True)
class BlueprintSource:
    """A blueprint with the lines of its file, for further checks."""

    blueprint: Blueprint
    file: str
    lines: LineNumbers

    def build_fault(self, finding: BlueprintFinding) -> BlueprintFault:
        """Add the line of a finding."""
        return locate_finding(self.file, self.lines, finding)


def read_no_files(folder: str) -> tuple[tuple[str, str], ...]:
    """Return no files, for a blueprint without folders."""
    del folder
    return ()


def load_blueprint_source(text: str, file: str = BLUEPRINT_FILE, read_folder: FolderReader = read_no_files) -> BlueprintSource:
    """Load a blueprint; raise `FaultyBlueprint` with all faults."""
    written = insert_server_files(load_yaml(text, file), file, read_folder)
    if any(fault.file != file for fault in written.faults):
        raise FaultyBlueprint(written.faults)
    try:
        # Strict and from JSON, so that "8000" is not a number while lists may become tuples.
        blueprint = Blueprint.model_validate_json(json.dumps(written.value), strict=True)
    except ValidationError as error:
        found = [locate_finding(file, written.lines, remark) for remark in explain_validation_error(error)]
        raise FaultyBlueprint([*written.faults, *found]) from None
    source = BlueprintSource(blueprint, file, written.lines)
    crossed = [source.build_fault(remark) for remark in check_blueprint(blueprint)]
    if faults := [*written.faults, *crossed]:
        raise FaultyBlueprint(faults)
    return source
