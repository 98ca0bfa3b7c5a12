from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import metadata
from typing import Final

import typer

from turnlog.services.cli.sections import SECTIONS, Command, Section

_HEAD: Final = """\
Usage: turnlog COMMAND [OPTIONS]

The record of what was said to a language model, and why.
"""
_FOOT: Final = """
`turnlog COMMAND --help` says what a command takes.
Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 conflict, 5 verification failed."""
_WIDTH: Final = max(len(each.name) for section in SECTIONS for each in section.commands) + 2


def show_overview(wanted: bool) -> None:  # noqa: FBT001 - as typer calls it
    """Print the overview and exit if `--help` was given."""
    if wanted:
        typer.echo(overview())
        raise typer.Exit


def show_version(wanted: bool) -> None:  # noqa: FBT001 - as typer calls it
    """Print the version and exit if `--version` was given."""
    if wanted:
        typer.echo(metadata.version("turnlog"))
        raise typer.Exit


def overview() -> str:
    """Return the text of `turnlog --help`."""
    lines = (line for section in SECTIONS for line in _section(section))
    return "\n".join([_HEAD, *lines, _FOOT])


def purpose(does: Callable[..., None]) -> str:
    """Return the first line of a command's docstring, which says what it is for."""
    return (does.__doc__ or "").partition("\n")[0]


def _section(section: Section) -> Iterator[str]:
    yield section.title
    yield from (_line(command) for command in section.commands)


def _line(command: Command) -> str:
    return f"  {command.name:{_WIDTH}}{purpose(command.does)}"
