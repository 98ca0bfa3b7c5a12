from __future__ import annotations

import subprocess
import sys

import pytest

from tests.services.cli.conftest import RunCommand
from turnlog.services.cli.command_index import COMMAND_SECTIONS, CommandEntry, extract_purpose

COMMANDS = [command for section in COMMAND_SECTIONS for command in section.commands]
HEAVY = ("litellm", "fastapi", "faststream", "sqlalchemy", "nats", "httpx", "pydantic", "rich")


def test_help_imports_nothing_that_takes_long() -> None:
    program = (
        "import sys\n"
        "from turnlog.services.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print(*sys.modules)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    imported = ran.stdout.splitlines()[-1].split()
    assert "turnlog.services.cli.main" in imported
    assert [name for name in HEAVY if name in imported] == []


def test_help_lists_every_command_with_a_sentence(turnlog: RunCommand) -> None:
    ran = turnlog("--help")
    lines = {line.strip().partition("  ")[0]: line for line in ran.out.splitlines()}
    assert ran.code == 0
    for command in COMMANDS:
        assert lines[command.name].endswith("."), command.name


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_says_what_it_takes(turnlog: RunCommand, command: CommandEntry) -> None:
    ran = turnlog(*command.name.split(), "--help")
    assert ran.code == 0
    assert f" {command.name} [OPTIONS]" in ran.out
    assert extract_purpose(command.function) in " ".join(ran.out.split())


def test_no_command_at_all_is_a_wish_for_help(turnlog: RunCommand) -> None:
    assert turnlog().out == turnlog("--help").out


@pytest.mark.parametrize(
    "wrong", [["nonsense"], ["show"], ["sessions", "--limit", "0"], ["sessions", "-o", "xml"]]
)
def test_wrong_use_is_exit_code_two_and_said_on_standard_error(
    turnlog: RunCommand, wrong: list[str]
) -> None:
    ran = turnlog(*wrong)
    assert (ran.code, ran.out) == (2, "")
    assert "Error:" in ran.err


def test_the_version_is_that_of_the_package(turnlog: RunCommand) -> None:
    assert turnlog("--version").out.strip() == "0.1.0"
