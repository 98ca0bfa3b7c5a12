"""Blueprint commands: create, check, and describe for editors."""

from __future__ import annotations

import json
import runpy
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from tests.services.cli.conftest import RunCommand
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS, BlueprintFolders

DOCS = Path(__file__).parents[3] / "docs"

SCHEMA = DOCS / "reference/blueprint.schema.json"

CARTRIDGE = "tasks/share-before-reading/cartridge.yaml"


@pytest.fixture
def tutor(turnlog: RunCommand, tmp_path: Path) -> Path:
    assert turnlog("blueprint", "new", "tutor", "--from", "trickster", "--in", tmp_path).code == 0
    return tmp_path / "tutor"


def replace_text(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


def list_faults(turnlog: RunCommand, folder: Path) -> list[tuple[str, int, str]]:
    ran = turnlog("blueprint", "check", folder, "-o", "json")
    errors = [each for each in ran.json[str(folder)] if each["severity"] == "error"]
    assert ran.code == (1 if errors else 0)
    return [(each["file"], each["line"], each["fix"]) for each in errors]


@pytest.mark.parametrize("pattern", BlueprintFolders().list_names())
def test_new_blueprint_passes_the_check(turnlog: RunCommand, tmp_path: Path, pattern: str) -> None:
    ran = turnlog("blueprint", "new", "mine", "--from", pattern, "--in", tmp_path)
    assert f"✓ {tmp_path / 'mine'} can be used" in ran.out.replace("\n", "")
    assert list_faults(turnlog, tmp_path / "mine") == []
    assert "blueprint: mine\n" in (tmp_path / "mine/blueprint.yaml").read_text()


def test_check_warns_of_requests_that_some_providers_refuse_and_passes(
    turnlog: RunCommand, tutor: Path
) -> None:
    replace_text(tutor / "blueprint.yaml", "      - user: [debrief_request]\n", "")
    ran = turnlog("blueprint", "check", tutor)
    assert ran.code == 0
    line = (tutor / "blueprint.yaml").read_text().splitlines().index("      - history: whole") + 1
    assert (
        f"! tutor/blueprint.yaml:{line} calls.debrief.messages.1.history: the request " in ran.out
    )
    assert "add a user message after it, with `input` or a text" in ran.out
    assert f"✓ {tutor} can be used" in ran.out.replace("\n", "")
    assert list_faults(turnlog, tutor) == []


def test_check_lists_faults_of_the_tools_file_and_of_the_blueprint(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    assert turnlog("blueprint", "new", "desk", "--from", "uderia", "--in", tmp_path).code == 0
    folder, tools = tmp_path / "desk", tmp_path / "mcp.json"
    servers = {"shop": {"command": sys.executable, "env": {"TOKEN": "${NOT_SET}"}}}
    tools.write_text(json.dumps({"mcpServers": servers}, indent=2))
    replace_text(
        folder / "blueprint.yaml", "configured: all, folder: mcp/", "pay: {configured: shp}"
    )
    ran = turnlog("blueprint", "check", folder, "--tools", tools, "-o", "json")
    assert ran.code == 1
    assert [each["what"] for each in ran.json[str(tools)]] == ["the variable NOT_SET is not set"]
    assert [(each["path"], each["fix"]) for each in ran.json[str(folder)]] == [
        ("tools.servers.pay.configured", "write `shop`")
    ]


def test_creating_a_blueprint_does_not_overwrite_existing_files(
    turnlog: RunCommand, tutor: Path
) -> None:
    (tutor / "blueprint.yaml").write_text("precious")
    assert turnlog("blueprint", "new", "tutor", "--in", tutor.parent).code == 4
    assert (tutor / "blueprint.yaml").read_text() == "precious"


@pytest.mark.parametrize("name", ["Mine", "../mine", ""])
def test_invalid_blueprint_name_is_refused_and_creates_no_files(
    turnlog: RunCommand, tmp_path: Path, name: str
) -> None:
    assert turnlog("blueprint", "new", name, "--in", tmp_path).code == 2
    assert list(tmp_path.iterdir()) == []


def test_cartridge_faults_are_reported_with_line_and_nearest_name(
    turnlog: RunCommand, tutor: Path
) -> None:
    replace_text(tutor / CARTRIDGE, "min_exchanges: 2", "min_exchange: 2")
    replace_text(tutor / "tasks/lucky-draw/cartridge.yaml", "next: end", "next: edn")
    assert list_faults(turnlog, tutor) == [
        ("tutor/tasks/lucky-draw/cartridge.yaml", 65, "write `end`"),
        (f"tutor/{CARTRIDGE}", 59, "write `min_exchanges`"),
    ]


def test_cartridge_without_a_required_value_is_a_fault(turnlog: RunCommand, tutor: Path) -> None:
    replace_text(tutor / CARTRIDGE, "intensity_ceiling: moderate", "")
    ((file, _, fix),) = list_faults(turnlog, tutor)
    assert (file, fix) == (f"tutor/{CARTRIDGE}", "every cartridge must fill it")


def test_task_blueprint_without_cartridges_is_a_fault(turnlog: RunCommand, tutor: Path) -> None:
    for cartridge in tutor.glob("tasks/*/cartridge.yaml"):
        cartridge.unlink()
    ((file, line, fix),) = list_faults(turnlog, tutor)
    assert (file, fix) == ("tutor/blueprint.yaml", "add one")
    assert "tasks/{task}" in (tutor / "blueprint.yaml").read_text().splitlines()[line - 1]


def test_unregistered_checks_and_sources_are_faults(turnlog: RunCommand, tutor: Path) -> None:
    file = tutor / "blueprint.yaml"
    replace_text(file, "check: topic_list", "check: topiclist")
    replace_text(file, "persona: {file: persona.md}", "persona: {source: nowhere}")
    fixes = {fix for _, _, fix in list_faults(turnlog, tutor)}
    assert "write `topic_list`" in fixes
    assert len(fixes) == 2


def test_check_reports_faults_of_memory_policy_and_resolver(
    turnlog: RunCommand, tmp_path: Path
) -> None:
    folder = tmp_path / "araquem"
    shutil.copytree(SHIPPED_BLUEPRINTS / "araquem", folder)
    replace_text(folder / "blueprint.yaml", "source: finance_demo", "source: finance")
    replace_text(folder / "policies/context.yaml", "ttl_seconds", "ttl_second")
    assert list_faults(turnlog, folder) == [
        ("araquem/blueprint.yaml", 9, "write `finance_demo`"),
        ("araquem/policies/context.yaml", 5, "write `ttl_seconds`"),
    ]
    (folder / "policies/context.yaml").unlink()
    assert len(list_faults(turnlog, folder)) == 2


def test_published_blueprint_schema_is_up_to_date() -> None:
    generator = runpy.run_path(str(DOCS / "generate/blueprint_schema.py"))
    assert generator["format_reference"]() == SCHEMA.read_text(), "it is stale: run `make docs`"


@pytest.mark.parametrize("name", ["assistant", "trickster", "araquem"])
def test_shipped_blueprints_match_the_published_schema(name: str) -> None:
    assert list(build_validator().iter_errors(read_blueprint(name))) == []


def test_blueprint_schema_rejects_misspelt_keys_and_describes_every_key() -> None:
    blueprint = read_blueprint("assistant")
    blueprint["polices"] = blueprint.pop("policies")
    assert [error.validator for error in build_validator().iter_errors(blueprint)] == [
        "additionalProperties"
    ]
    kinds = [build_validator().schema, *build_validator().schema["$defs"].values()]
    words = [word for kind in kinds for word in kind.get("properties", {}).values()]
    assert [word for word in words if "description" not in word] == []


def build_validator() -> Any:  # noqa: ANN401 - the library's own type is not annotated
    return Draft202012Validator(json.loads(SCHEMA.read_text()))


def read_blueprint(name: str) -> dict[str, Any]:
    read: dict[str, Any] = YAML(typ="safe").load(SHIPPED_BLUEPRINTS / name / "blueprint.yaml")
    return read
