"""Loads a cartridge: the data of one task, checked before a session opens with it.

A blueprint lists the paths that its cartridges must fill, and the state machine of a cartridge must
be consistent. All faults are reported together, each with its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import JsonValue, ValidationError

from turnlog.projections.blueprint.loading.validation_messages import (
    explain_validation_error as remarks_on_words,
)
from turnlog.projections.blueprint.loading.yaml_document import load_yaml
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.phase_specs import (
    PHASES_ADAPTER,
    PhaseDefinition,
    PhaseGraph,
    find_graph_faults,
)
from turnlog.projections.blueprint.schema.strict_model import Name
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    FaultyBlueprint,
    locate_finding,
    suggest_word,
)

Cartridge = dict[str, JsonValue]


def load_cartridge_source(text: str, file: str, blueprint: Blueprint) -> Cartridge:
    """Load a cartridge; raise `FaultyBlueprint` with all faults."""
    written = load_yaml(text, file)
    value = written.value if isinstance(written.value, dict) else {}
    findings = [*_check_required_paths(value, blueprint), *_check_phase_graph(value, blueprint)]
    faults = [
        *written.faults,
        *(locate_finding(file, written.lines, finding) for finding in findings),
    ]
    if faults:
        raise FaultyBlueprint(faults)
    return value


def _check_required_paths(value: Cartridge, blueprint: Blueprint) -> Iterator[BlueprintFinding]:
    for path in blueprint.cartridge.requires if blueprint.cartridge else ():
        steps = tuple(path.split("."))
        found: JsonValue = value
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        if found in (None, "", [], {}):
            yield BlueprintFinding(steps, f"`{path}` is missing", "every cartridge must fill it")


def _check_phase_graph(value: Cartridge, blueprint: Blueprint) -> Iterator[BlueprintFinding]:
    drawn = value.get("phases")
    if blueprint.phases is None or not isinstance(drawn, dict):
        return
    states = {name: state for name, state in drawn.items() if name != "start"}
    try:
        phases = PHASES_ADAPTER.validate_json(json.dumps(states), strict=True)
    except ValidationError as error:
        for finding in remarks_on_words(error, dict[Name, PhaseDefinition]):
            yield BlueprintFinding(("phases", *finding.path), finding.what, finding.fix)
        return
    graph = PhaseGraph(str(drawn.get("start")), phases, blueprint.phases)
    for path, what in find_graph_faults(graph):
        named = _get_nested_value(drawn, path)
        fix = suggest_word(named, phases) if isinstance(named, str) else "change one of the two"
        yield BlueprintFinding(("phases", *path), what, fix)


def _get_nested_value(value: JsonValue, path: tuple[str, ...]) -> JsonValue:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
