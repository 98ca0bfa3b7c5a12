from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow("mypy checks the events and the rules of a session")

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


TurnCommand = (
    PraiseTurn
    | """
THANKS = """
@dataclass(frozen=True, slots=True)
class ThankUser:
    turn: int


Command = (
    ThankUser
    | """


@pytest.fixture(scope="module")
def missed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What mypy reports of a copy that has an event and two commands more."""
    house = copy_sources(tmp_path_factory.mktemp("house"))
    kinds, commands = f"{EVENTS}/registry.py", f"{SESSION}/commands.py"
    imports = ("from typing import ClassVar", "from turnlog.events.event_model import EventModel")
    extend_union(house / kinds, "KnownEvent", PRAISED, *imports)
    extend_union(house / commands, "TurnCommand", PRAISE)
    extend_union(house / commands, "Command", THANKS)
    rules = (f"{SESSION}/{name}.py" for name in ("evolve", "decide", "rules/client_rules"))
    return run_mypy(house, *rules, kinds, commands)


def copy_sources(folder: Path) -> Path:
    """Copy the files that mypy reads, and return their folder."""
    for part in (EVENTS, "projections/src/turnlog/projections"):
        compiled = shutil.ignore_patterns("__pycache__")  # Which other tests write meanwhile.
        shutil.copytree(HOUSE / part, folder / part, ignore=compiled)
    shutil.copy(HOUSE / "pyproject.toml", folder)
    return folder


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


def test_type_checker_reports_an_event_that_the_fold_does_not_handle(missed: list[str]) -> None:
    (found,) = [line for line in missed if "TurnPraised" in line]
    assert found.startswith(f"{SESSION}/evolve.py:")
    assert '"assert_never" has incompatible type "TurnPraised"' in found


def test_type_checker_reports_a_command_of_no_family(missed: list[str]) -> None:
    (found,) = [line for line in missed if "ThankUser" in line]
    assert found.startswith(f"{SESSION}/decide.py:")
    assert '"decide_turn" has incompatible type' in found


def test_type_checker_reports_a_command_that_its_family_does_not_handle(missed: list[str]) -> None:
    (found,) = [line for line in missed if "PraiseTurn" in line and "ThankUser" not in line]
    assert found.startswith(f"{SESSION}/rules/client_rules.py:")
    assert '"assert_never" has incompatible type "PraiseTurn"' in found


def test_nothing_else_is_missed(missed: list[str]) -> None:
    assert len(missed) == 3, missed
