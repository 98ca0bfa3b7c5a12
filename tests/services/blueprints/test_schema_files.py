"""Schema files beside a blueprint: checked, inlined and read again with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agent_programs.agent_harness import build_agent_blueprint
from turnlog.projections.blueprint.schema.blueprint_model import encode_blueprint
from turnlog.projections.blueprint.schema.call_specs import OutputSpec
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders, list_read_faults

MOOD = {"type": "object", "required": ["mood"]}

FAULTY: dict[str, tuple[str, Any, str]] = {
    "not there": ("plan", "mod.json", "there is no `mod.json` beside the blueprint"),
    "no JSON": ("plan", "broken.json", "broken.json: it is not JSON"),
    "no object": ("plan", "list.json", "list.json: it is not a JSON object"),
    "no schema": ("plan", {"type": "thing"}, "type is no JSON Schema"),
    "leading elsewhere": (
        "synthesise",
        {"$ref": "file:///etc/passwd"},
        "it refers to 'file:///etc",
    ),
    "leading nowhere": ("plan", {"$ref": "#/$defs/mod"}, "'#/$defs/mod', which is not in"),
    "leading to no schema": ("plan", {"$ref": "#/type", "type": "object"}, "'#/type', which"),
    "of a tactic": ("tactic", MOOD, "the call of a step requests tools; its text is not parsed"),
    "of no form": ("plan", "../mood.json", "it must be `plan`, a file beside the blueprint"),
}


def write_blueprint(folder: Path, call: str, schema: object) -> Path:
    """Write an agent's blueprint, one of whose calls has a form."""
    calls = json.loads(encode_blueprint(build_agent_blueprint()))["calls"]
    calls[call]["output"] = {"schema": schema}
    home = folder / "agent"
    home.mkdir(exist_ok=True)
    body = json.loads(encode_blueprint(build_agent_blueprint())) | {"calls": calls}
    (home / "blueprint.yaml").write_text(json.dumps(body))
    (home / "mood.json").write_text(json.dumps(MOOD))
    (home / "broken.json").write_text("{")
    (home / "list.json").write_text("[]")
    return home


@pytest.mark.parametrize("case", FAULTY.values(), ids=FAULTY)
def test_a_schema_that_cannot_be_used_is_a_fault_of_the_blueprint(
    tmp_path: Path, case: tuple[str, Any, str]
) -> None:
    call, schema, what = case
    (fault, *_) = list_read_faults(write_blueprint(tmp_path, call, schema))
    assert fault.path.startswith(f"calls.{call}.output")
    assert what in str(fault)


def test_a_schema_in_a_file_stands_in_the_blueprint_and_is_read_again_when_it_changed(
    tmp_path: Path,
) -> None:
    library, home = BlueprintFolders((tmp_path,)), write_blueprint(tmp_path, "plan", "mood.json")
    assert _get_output_schema(library) == MOOD
    (home / "mood.json").write_text('{"type": "array"}')
    assert _get_output_schema(library) == {"type": "array"}


def _get_output_schema(library: BlueprintFolders) -> object:
    output = library.load_blueprint("agent").calls["plan"].output
    assert isinstance(output, OutputSpec)
    return output.schema_
