from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Final

import typer

from turnlog.services.cli.sections import COMMAND_SECTIONS, CommandEntry, CommandSection

_HELP_HEAD: Final = """\
Usage: turnlog COMMAND [OPTIONS]

The record of what was said to a language model, and why.
"""
_HELP_FOOT: Final = """
`turnlog COMMAND --help` says what a command takes.
Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 conflict, 5 verification failed."""
_NAME_WIDTH: Final = max(len(each.name) for section in COMMAND_SECTIONS for each in section.commands) + 2


def print_overview(wanted: bool) -> None:  # noqa: FBT001 - as typer calls it
    """Print the overview and exit if `--help` was given."""
    if wanted:
        typer.echo(format_overview())
        raise typer.Exit


def print_version(wanted: bool) -> None:  # noqa: FBT001 - as typer calls it
    """Print the version and exit if `--version` was given."""
    if wanted:
        typer.echo(metadata.version("turnlog"))
        raise typer.Exit


def format_overview() -> str:
    """Return the text of `turnlog --help`."""
    lines = (line for section in COMMAND_SECTIONS for line in _format_section(section))
    return "\n".join([_HELP_HEAD, *lines, _HELP_FOOT])


def extract_purpose(function: Callable[..., None]) -> str:
    """Return the first line of a command's docstring, which says what it is for."""
    return (function.__doc__ or "").partition("\n")[0]


def _format_section(section: CommandSection) -> Iterator[str]:
    yield section.title
    yield from (_format_entry(command) for command in section.commands)


def _format_entry(command: CommandEntry) -> str:
    return f"  {command.name:{_NAME_WIDTH}}{extract_purpose(command.function)}"
