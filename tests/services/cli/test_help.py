from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions, requires
from inspect import isfunction
from pkgutil import walk_packages

import pytest

from tests.services.cli.conftest import RunCommand
from turnlog.services import cli
from turnlog.services.cli.command_index import COMMAND_SECTIONS, extract_purpose
from turnlog.services.cli.command_runner import CommandEntry

COMMANDS = [command for section in COMMAND_SECTIONS for command in section.commands]
READERS = (
    ["sessions"],
    ["show", "some-session"],
    ["history", "some-session"],
    ["why", "some-session", "1"],
    ["tail", "some-session"],
)
"""What is called again and again on a terminal, or by a program."""

PARSER = frozenset({"typer"})
"""Help is text, so a command that prints it needs the parser of its arguments alone."""

DISPLAY = frozenset({"rich", "ruamel"})
"""What draws an answer on a terminal."""

MEMBERS = ("turnlog-events", "turnlog-projections", "turnlog-services", "turnlog-client")


def list_required_libraries(*members: str) -> frozenset[str]:
    """List the packages of everything that members of the project require, with all extras."""
    return find_packages({text for each in members for text in requires(each) or ()})


def list_brought_libraries(*distributions: str) -> frozenset[str]:
    """List the packages that always come with distributions, because these require them."""
    texts = {text for each in distributions for text in requires(each) or () if "extra" not in text}
    return find_packages(texts)


@cache
def list_installed_packages() -> Mapping[str, list[str]]:
    """List the packages to import, with the distributions that bring them, from all metadata."""
    return packages_distributions()


def find_packages(requirements: set[str]) -> frozenset[str]:
    """Find the packages to import of distributions that are named as requirements."""
    names = {normalize_name(re.split(r"[^\w.-]", text)[0]) for text in requirements}
    return frozenset(
        library
        for library, owners in list_installed_packages().items()
        if names & {normalize_name(owner) for owner in owners}
    )


def normalize_name(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def list_foreign_libraries(imported: set[str], needed: frozenset[str]) -> frozenset[str]:
    """List the libraries that a command imported, and that the project requires for others."""
    return (list_required_libraries(*MEMBERS) - {"turnlog"} - needed) & imported


def list_imported_libraries(*arguments: str) -> set[str]:
    """Run a command in a process of its own, and return the packages it imported."""
    program = (
        "import sys\n"
        "from turnlog.services.cli.main import main\n"
        f"try: main({[*arguments]!r})\n"
        "except SystemExit: pass\n"
        "imported = [name for name, module in sys.modules.items() if module]\n"
        "print(*{name.partition('.')[0] for name in imported})\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return set(ran.stdout.splitlines()[-1].split())


def test_help_does_not_import_slow_libraries() -> None:
    imported = list_imported_libraries("--help")
    assert "turnlog" in imported
    assert list_foreign_libraries(imported, PARSER) == set()


@pytest.mark.slow("an interpreter starts, to see what it imports")
@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_client_command_imports_no_library_that_only_a_service_needs(words: list[str]) -> None:
    # A port that nothing can listen at: the request is the last thing that the command does.
    imported = list_imported_libraries(*words, "--url", "http://127.0.0.1:0")
    client = list_required_libraries("turnlog-client")
    assert imported >= client
    # The services name the library that httpx sends with, which is there whenever httpx sends.
    needed = PARSER | DISPLAY | client | list_brought_libraries("httpx")
    assert list_foreign_libraries(imported, needed) == set()


def test_help_lists_every_command_with_a_sentence(turnlog: RunCommand) -> None:
    ran = turnlog("--help")
    lines = {line.strip().partition("  ")[0]: line for line in ran.out.splitlines()}
    assert ran.code == 0
    for command in COMMANDS:
        assert lines[command.name].endswith("."), command.name


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_help_of_every_command_shows_usage_and_purpose(
    turnlog: RunCommand, command: CommandEntry
) -> None:
    ran = turnlog(*command.name.split(), "--help")
    assert ran.code == 0
    assert f" {command.name} [OPTIONS]" in ran.out
    assert extract_purpose(command.function) in " ".join(ran.out.split())


def list_command_functions() -> set[Callable[..., None]]:
    """List the public functions of all modules of commands."""
    names = (module.name for module in walk_packages(cli.__path__, f"{cli.__name__}."))
    modules = [import_module(name) for name in names if name.endswith("_commands")]
    return {
        function
        for module in modules
        for name, function in vars(module).items()
        if isfunction(function) and function.__module__ == module.__name__
        if not name.startswith("_")
    }


def test_every_function_of_a_module_of_commands_is_listed_in_the_help() -> None:
    listed = {command.function for command in COMMANDS}
    assert len(listed) == len(COMMANDS)
    assert list_command_functions() == listed


def test_running_without_a_command_prints_help(turnlog: RunCommand) -> None:
    assert turnlog().out == turnlog("--help").out


@pytest.mark.parametrize(
    "wrong", [["nonsense"], ["show"], ["sessions", "--limit", "0"], ["sessions", "-o", "xml"]]
)
def test_usage_error_exits_with_code_two_and_prints_to_stderr(
    turnlog: RunCommand, wrong: list[str]
) -> None:
    ran = turnlog(*wrong)
    assert (ran.code, ran.out) == (2, "")
    assert "Error:" in ran.err


def test_version_option_prints_the_package_version(turnlog: RunCommand) -> None:
    assert turnlog("--version").out.strip() == "0.1.0"
