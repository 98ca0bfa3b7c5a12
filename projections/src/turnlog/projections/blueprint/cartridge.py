"""Loads a cartridge: the data of one task, checked before a session opens with it.

A blueprint lists the paths that its cartridges must fill, and the state machine of a cartridge must
be consistent. All faults are reported together, each with its line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import JsonValue, ValidationError

from turnlog.projections.blueprint.document import document
from turnlog.projections.blueprint.faults import FaultyBlueprint, Remark, instead_of, located
from turnlog.projections.blueprint.phases import PHASES, Phase, PhaseGraph, remarks_on
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.strict import Name
from turnlog.projections.blueprint.wording import remarks_on as remarks_on_words

Cartridge = dict[str, JsonValue]


def read_cartridge_source(text: str, file: str, blueprint: Blueprint) -> Cartridge:
    """Load a cartridge; raise `FaultyBlueprint` with all faults."""
    written = document(text, file)
    value = written.value if isinstance(written.value, dict) else {}
    remarks = [*_missing(value, blueprint), *_phases(value, blueprint)]
    faults = [*written.faults, *(located(file, written.lines, remark) for remark in remarks)]
    if faults:
        raise FaultyBlueprint(faults)
    return value


def _missing(value: Cartridge, blueprint: Blueprint) -> Iterator[Remark]:
    for path in blueprint.cartridge.requires if blueprint.cartridge else ():
        steps = tuple(path.split("."))
        found: JsonValue = value
        for step in steps:
            found = found.get(step) if isinstance(found, dict) else None
        if found in (None, "", [], {}):
            yield Remark(steps, f"`{path}` is missing", "every cartridge must fill it")


def _phases(value: Cartridge, blueprint: Blueprint) -> Iterator[Remark]:
    drawn = value.get("phases")
    if blueprint.phases is None or not isinstance(drawn, dict):
        return
    states = {name: state for name, state in drawn.items() if name != "start"}
    try:
        phases = PHASES.validate_json(json.dumps(states), strict=True)
    except ValidationError as error:
        for remark in remarks_on_words(error, dict[Name, Phase]):
            yield Remark(("phases", *remark.path), remark.what, remark.fix)
        return
    graph = PhaseGraph(str(drawn.get("start")), phases, blueprint.phases)
    for path, what in remarks_on(graph):
        named = _written(drawn, path)
        fix = instead_of(named, phases) if isinstance(named, str) else "change one of the two"
        yield Remark(("phases", *path), what, fix)


def _written(value: JsonValue, path: tuple[str, ...]) -> JsonValue:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value
