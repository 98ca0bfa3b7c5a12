"""The recipes lead to the goal: what they name exists, and they are carried out.

Three are carried out here, and the safety check by `tests/layered_prompts/test_boundary_checks.py`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.docs.code_names import expand_path, list_code_words, list_defined_names, list_table_rows
from tests.docs.doc_pages import ROOT
from tests.docs.recipe_packages import RECIPES, write_recipe_package
from tests.faults.suite_extent import whole_programme
from tests.projections.prompt.test_trim_ladders import TALE
from tests.support.sessions.game_master_turns import replace_ladder
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.loading.blueprint_source import load_blueprint_source
from turnlog.services.extensions import plugins

STEPS = [(title, *row) for title, text in RECIPES.items() for row in list_table_rows(text)]

NEW_EVENT = '''class TurnPraised(EventModel):
    """A reader praised a turn."""

    type: ClassVar[str] = "turnlog.turn-praised.v1"
    leaf: ClassVar[str] = "turn"
    sentence: ClassVar[str] = "turn {turn}"

    turn: int
    """The turn number."""


KnownTurnEvent = (
    TurnPraised
    | '''

EVENT_EDITS = {
    "tests/support/generators/event_samples.py": (
        '        "turn-excluded": ',
        '        "turn-praised": TurnPraised(turn=3),\n        "turn-excluded": ',
    ),
    "projections/session/evolve.py": (
        "case SessionOpened() | StatelessEvent()",
        "case SessionOpened() | TurnPraised() | StatelessEvent()",
    ),
    "projections/store/write/event_rows.py": (
        "case SummaryUndone() | MemoryPurged() |",
        "case SummaryUndone() | MemoryPurged() | TurnPraised() |",
    ),
    "tests/support/generators/event_strategies.py": (
        "    TurnExcluded: ",
        "    TurnPraised: st.builds(TurnPraised, turn=TURN_NUMBERS),\n    TurnExcluded: ",
    ),
}


@pytest.mark.parametrize("step", STEPS, ids=[f"{step[0]}: {step[1]}" for step in STEPS])
def test_every_file_name_and_test_of_a_step_exists(step: tuple[str, ...]) -> None:
    _, _, file, names, check = step
    (path,) = list_code_words(file)
    target = expand_path(path)
    assert target.exists()
    if target.suffix == ".py":
        assert set(list_code_words(names)) - list_defined_names(target) == set()
    for word in list_code_words(check):
        test_file, _, test = word.partition("::")
        assert not test or test in list_defined_names(ROOT / test_file)
        assert (ROOT / test_file).exists()


def test_new_event_with_its_command_touches_as_many_files_as_the_recipe_counts() -> None:
    files = {list_code_words(row[1])[0] for row in list_table_rows(RECIPES["Add an event"])}
    assert "Seven files" in RECIPES["Add an event"]
    assert len(files) == 7


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the product and of the tests that know all events."""
    for part in ("events", "projections", "services", "tests", "docs/generate"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def expand_in_tree(tree: Path, path: str) -> Path:
    return tree / expand_path(path).relative_to(ROOT)


def run_in_tree(tree: Path, *arguments: str) -> list[str]:
    """Run a module of Python on the copy, and return the lines that it prints."""
    sources = (str(tree / member / "src") for member in ("events", "projections", "services"))
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=tree,
        env={"PYTHONPATH": ":".join((str(tree), *sources)), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def list_mypy_files(tree: Path, paths: set[str]) -> set[str]:
    """List those of the files that mypy misses the new event in."""
    files = [str(expand_in_tree(tree, path).relative_to(tree)) for path in sorted(paths)]
    lines = run_in_tree(tree, "mypy", "--no-error-summary", *files)
    return {line.split("/src/turnlog/")[-1].partition(":")[0] for line in lines if "error:" in line}


def list_failing_tests(tree: Path, tests: set[str]) -> set[str]:
    """List those of the tests that fail, without their parameters."""
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no")
    lines = run_in_tree(tree, "pytest", *options, *sorted(tests))
    assert re.search(r"\d (passed|failed)", lines[-1]), lines
    failed = (line.split()[1] for line in lines if line.startswith("FAILED "))
    return {test.partition("[")[0] for test in failed}


def replace_text(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert text.count(before) >= 1, f"{file} has no {before!r}"
    file.write_text(text.replace(before, after, 1))


def add_event_import(file: Path) -> None:
    line = "from __future__ import annotations\n"
    imported = "from turnlog.events.model.turn_events import TurnPraised\n"
    replace_text(file, line, f"{line}{imported}")


def apply_event_edit(tree: Path, path: str) -> None:
    file = expand_in_tree(tree, path)
    replace_text(file, *EVENT_EDITS[path])
    add_event_import(file)


@whole_programme
@pytest.mark.timeout(600)
def test_adding_an_event_fails_the_named_checks_until_the_recipe_is_followed(tree: Path) -> None:
    rows = list_table_rows(RECIPES["Add an event"])
    checks = {list_code_words(row[1])[0]: row[3] for row in rows}
    events = expand_in_tree(tree, "events/model/turn_events.py")
    replace_text(events, "KnownTurnEvent = (\n    ", NEW_EVENT)
    checked = {path for path, check in checks.items() if check == "mypy" and path in EVENT_EDITS}
    assert list_mypy_files(tree, checked) == checked
    tests = {word for check in checks.values() for word in list_code_words(check)}
    assert list_failing_tests(tree, tests) == tests
    for path in EVENT_EDITS:
        apply_event_edit(tree, path)
    run_in_tree(tree, "tests.events.golden_bytes")
    run_in_tree(tree, "docs.generate.event_exports")
    assert list_mypy_files(tree, checked) == set()
    assert list_failing_tests(tree, tests) == set()


@pytest.fixture
def installed(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Install the package of a recipe as its page shows it, and return the recipe's text."""
    monkeypatch.syspath_prepend(write_recipe_package(request.param, tmp_path))
    clear_plugin_caches()
    yield RECIPES[request.param]
    clear_plugin_caches()


def clear_plugin_caches() -> None:
    plugins.read_entry_points.cache_clear()
    plugins.collect_installed.cache_clear()


@pytest.mark.parametrize("installed", ["Add a source of a layer"], indirect=True)
async def test_layer_source_of_the_recipe_is_found_and_supplies_its_text(
    installed: str,
) -> None:
    written = ROOT / "services/src/turnlog/services/blueprints/shipped/assistant/blueprint.yaml"
    layer = re.findall(r"layers:\n(  profile: .*\n)", installed)[0]
    blueprint = load_blueprint_source(
        written.read_text().replace("\nlayers:\n", f"\nlayers:\n{layer}", 1)
    ).blueprint
    plugins.check_plugins_registered(blueprint)
    source = plugins.load_source("school_profile")
    assert await source("s", {"task": "maths"}) == "Learns by example, in maths."


@pytest.mark.parametrize("installed", ["Add a tool"], indirect=True)
async def test_tool_of_the_recipe_is_described_by_its_signature_and_called(
    installed: str,
) -> None:
    assert "own: {functions: [look_up]}" in installed
    tool = plugins.load_tool("look_up")
    assert (tool.read_only, tool.text) == (True, "Say how many of a thing are in stock.")
    assert tool.schema["required"] == ["thing"]
    assert await tool.call({"thing": "hammer"}) == {"in_stock": 3}


def test_layer_source_without_its_package_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        plugins.load_source("school_profile")
    assert refused.value.code == "unknown-source"


@pytest.mark.parametrize("installed", ["Add a ladder step"], indirect=True)
def test_ladder_step_of_the_recipe_shortens_a_prompt(installed: str) -> None:
    step: JsonValue = {"name": "keep_first", "layer": "npc", "with": {"keep": 1}}
    assert "registered: {name: keep_first, layer: npc, with: {keep: 1}}" in installed
    blueprint = replace_ladder([{"registered": step}], 130)
    plugins.check_plugins_registered(blueprint)
    steps = plugins.collect_installed().registered_steps
    found = replace(TALE, blueprint=blueprint, registered=steps).assemble_prompt()
    npc = [part for part in found.manifest.parts if part.layer == "npc" and part.is_included]
    assert len(npc) == 1
    assert [(taken.step, taken.on) for taken in found.manifest.steps] == [("registered", "npc")]
