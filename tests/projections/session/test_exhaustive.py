from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[3]
EVENTS = "events/src/turnlog/events"
SESSION = "projections/src/turnlog/projections/session"

PRAISED = """
class TurnPraised(EventModel):
    type: ClassVar[str] = "turnlog.turn-praised.v1"
    leaf: ClassVar[str] = "turn"


KnownEvent = (
    TurnPraised
    | """
PRAISE = """
@dataclass(frozen=True, slots=True)
class PraiseTurn:
    turn: int


Command = (
    PraiseTurn
    | """


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the files that mypy reads, in which a union can be extended."""
    for part in (EVENTS, "projections/src/turnlog/projections"):
        compiled = shutil.ignore_patterns("__pycache__")  # Which other tests write meanwhile.
        shutil.copytree(HOUSE / part, tmp_path / part, ignore=compiled)
    shutil.copy(HOUSE / "pyproject.toml", tmp_path)
    return tmp_path


def extend_union(file: Path, union: str, wider: str, *imports: str) -> None:
    before, after = file.read_text().split(f"\n{union} = (\n    ")
    head, rest = before.split("from __future__ import annotations\n")
    lines = "".join(f"{line}\n" for line in ("from __future__ import annotations", *imports))
    file.write_text(head + lines + rest + wider + after)


def run_mypy(house: Path, *modules: str) -> list[str]:
    """Return what mypy, with the project's settings, reports for these modules."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *modules]
    checked = subprocess.run(command, cwd=house, capture_output=True, text=True, check=False)
    assert checked.stderr == ""
    return checked.stdout.splitlines()


def test_a_new_event_is_missed_by_the_fold_until_the_fold_knows_it(house: Path) -> None:
    kinds, evolve = f"{EVENTS}/registry.py", f"{SESSION}/evolve.py"
    imports = ("from typing import ClassVar", "from turnlog.events.event_model import EventModel")
    extend_union(house / kinds, "KnownEvent", PRAISED, *imports)
    (missed,) = run_mypy(house, evolve, kinds)
    assert missed.startswith(f"{evolve}:")
    assert '"assert_never" has incompatible type "TurnPraised"' in missed


def test_a_new_command_is_missed_by_the_rules_until_they_know_it(house: Path) -> None:
    commands, decide = f"{SESSION}/commands.py", f"{SESSION}/decide.py"
    extend_union(house / commands, "Command", PRAISE)
    (missed,) = run_mypy(house, decide, commands)
    assert missed.startswith(f"{decide}:")
    assert '"assert_never" has incompatible type "PraiseTurn"' in missed
