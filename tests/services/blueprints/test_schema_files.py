"""Schema files beside a blueprint: checked, inlined and read again with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agent_programs.agent_harness import build_agent_blueprint
from turnlog.projections.blueprint.schema.blueprint_model import encode_blueprint
from turnlog.projections.blueprint.schema.call_specs import OutputSpec
from turnlog.services.blueprints.blueprint_check import check_blueprint_folder
from turnlog.services.blueprints.blueprint_folders import BlueprintFolders, list_read_faults

MOOD = {"type": "object", "required": ["mood"]}

FAULTY: dict[str, tuple[str, Any, str]] = {
    "not there": ("plan", "mod.json", "there is no `mod.json` beside the blueprint"),
    "no JSON": ("plan", "broken.json", "broken.json: it is not JSON"),
    "no object": ("plan", "list.json", "list.json: it is not a JSON object"),
    "not storable": ("plan", "half.json", "half.json: NUL and lone surrogates cannot be stored"),
    "no schema": (
        "plan",
        {"type": "thing"},
        "type is no JSON Schema: 'thing' is not one of ['array'",
    ),
    "no list": ("plan", {"required": "mood"}, "required is no JSON Schema: 'mood' is not of type"),
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
    (home / "half.json").write_text('{"enum": ["a\\ud800"]}')
    return home


@pytest.mark.parametrize("case", FAULTY.values(), ids=FAULTY)
def test_unusable_output_schema_is_a_fault_of_the_blueprint(
    tmp_path: Path, case: tuple[str, Any, str]
) -> None:
    call, schema, what = case
    (fault, *_) = list_read_faults(write_blueprint(tmp_path, call, schema))
    assert fault.path.startswith(f"calls.{call}.output")
    assert what in str(fault)


def test_schema_file_is_inlined_and_reloaded_after_a_change(
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


def test_unknown_json_schema_keyword_is_a_warning_and_not_an_error(
    tmp_path: Path,
) -> None:
    schema = {
        "type": "object",
        "x-note": "for people",
        "properties": {
            "score": {"type": "integer", "minimum": 1, "max": 5},
            "max": {"enum": [{"maxx": 1}], "wholly": 1},
        },
    }
    warned = check_blueprint_folder(write_blueprint(tmp_path, "plan", schema))
    found = {
        (each.path, each.what): (each.severity, each.fix)
        for each in warned
        if "JSON Schema" in each.what
    }
    path, effect = "calls.plan.output.schema", "is no word of JSON Schema and has no effect"
    assert found == {
        (path, f"`max` {effect}"): ("warning", "write `maximum`"),
        (path, f"`wholly` {effect}"): ("warning", "leave it out, or begin it with `x-`"),
    }


QUIZ = """\
blueprint: quiz
version: 1
attributes:
  role: {type: id, enum: [cook, pilot], required: true}
layers:
  questions: {file: "questions/{role}.md", keep: always}
calls:
  reply: {messages: [{system: [questions]}, {user: [input]}]}
profiles:
  chat: {default: true, call: reply}
"""


def test_allowed_attribute_value_without_its_required_file_is_a_warning(tmp_path: Path) -> None:
    home = tmp_path / "quiz"
    (home / "questions").mkdir(parents=True)
    (home / "blueprint.yaml").write_text(QUIZ)
    (none_at_all, *_) = check_blueprint_folder(home)
    assert (none_at_all.severity, none_at_all.path) == ("error", "layers.questions.file")
    assert none_at_all.what.endswith("no file matches")
    (home / "questions/cook.md").write_text("What is a roux?")
    (missing,) = check_blueprint_folder(home)
    assert (missing.severity, missing.path, missing.line) == ("warning", "attributes.role.enum", 4)
    assert "role is 'pilot'; there are: cook" in missing.what
    assert "add questions/pilot.md to quiz" in missing.fix
    (home / "questions/pilot.md").write_text("What is a stall?")
    assert check_blueprint_folder(home) == ()
