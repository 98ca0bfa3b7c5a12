"""Loads a blueprint from YAML: the blueprint itself, or all faults of its file.

Everything that can be checked without the other files is checked here: the YAML, the fields, and
that every name one part uses is defined by another.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final

from pydantic import ValidationError

from turnlog.projections.blueprint.loading.server_sources import ServerSources
from turnlog.projections.blueprint.loading.validation_messages import explain_validation_error
from turnlog.projections.blueprint.loading.yaml_document import load_yaml
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.validation.blueprint_checks import check_blueprint
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    BlueprintFinding,
    FaultyBlueprint,
    LineNumbers,
    locate_finding,
)
from turnlog.projections.blueprint.validation.history_view_checks import find_summary_warnings
from turnlog.projections.blueprint.validation.message_order_checks import find_order_warnings

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

    def list_warnings(self, more: Iterable[BlueprintFinding] = ()) -> tuple[BlueprintFault, ...]:
        """Return what some providers refuse, what works otherwise than it seems, and `more`."""
        checked = find_order_warnings(self.blueprint), find_summary_warnings(self.blueprint)
        findings = chain(*checked, more)
        return tuple(
            locate_finding(self.file, self.lines, finding, "warning") for finding in findings
        )


def load_blueprint_source(
    text: str, file: str = BLUEPRINT_FILE, servers: ServerSources | None = None
) -> BlueprintSource:
    """Load a blueprint; raise `FaultyBlueprint` with all faults."""
    written = (servers or ServerSources()).insert_servers(load_yaml(text, file), file)
    if any(fault.file != file for fault in written.faults):
        raise FaultyBlueprint(written.faults)
    try:
        # Strict and from JSON, so that "8000" is not a number while lists may become tuples.
        blueprint = Blueprint.model_validate_json(json.dumps(written.value), strict=True)
    except ValidationError as error:
        found = [
            locate_finding(file, written.lines, finding)
            for finding in explain_validation_error(error)
        ]
        raise FaultyBlueprint([*written.faults, *found]) from None
    source = BlueprintSource(blueprint, file, written.lines)
    crossed = [source.build_fault(finding) for finding in check_blueprint(blueprint)]
    if faults := [*written.faults, *crossed]:
        raise FaultyBlueprint(faults)
    return source
