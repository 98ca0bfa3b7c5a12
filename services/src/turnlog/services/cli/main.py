"""The command line: built from the command index, run, and its errors mapped to exit codes.

Nothing is built when this module is imported. Help is plain text because typer's rich help takes
longer to import than everything else a command needs. Errors of the operating system are shown like
Turnlog's own. Every other exception is a bug; it is not caught and keeps its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Final

import typer

from turnlog.events.errors import TurnlogError
from turnlog.services.cli.command_index import (
    COMMAND_GROUPS,
    COMMAND_SECTIONS,
    format_overview,
    print_overview,
    print_version,
)
from turnlog.services.cli.command_runner import CommandEntry
from turnlog.services.cli.options import expand_option_groups
from turnlog.services.platform.lean_imports import omit_httpx_program

_HELP: Final[dict[str, Any]] = {"help_option_names": ["--help", "-h"]}
_NO_HELP: Final[dict[str, Any]] = {"help_option_names": []}


@cache
def build_command() -> Callable[[Sequence[str] | None], object]:
    """Return the whole command line, which is built once: it has some seventy commands."""
    return typer.main.get_command(build_app())


def build_app() -> typer.Typer:
    """Build the command line application."""
    app = _create_typer(_NO_HELP)
    app.callback(invoke_without_command=True)(_handle_root)
    groups = {word: _create_typer(_HELP) for word in COMMAND_GROUPS}
    for word, group in groups.items():
        app.add_typer(group, name=word, help=COMMAND_GROUPS[word])
    for section in COMMAND_SECTIONS:
        for command in section.commands:
            _register_command(app, groups, command)
    return app


def _create_typer(context: dict[str, Any]) -> typer.Typer:
    return typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=context,
        no_args_is_help=context is _HELP,
    )


def _register_command(
    app: typer.Typer, groups: dict[str, typer.Typer], command: CommandEntry
) -> None:
    word, _, rest = command.name.partition(" ")
    home = groups[word] if rest else app
    home.command(rest or word, context_settings=_HELP)(expand_option_groups(command.function))


def _handle_root(
    ctx: typer.Context,
    *,
    help: Annotated[  # noqa: A002 - the name of the option
        bool, typer.Option("--help", "-h", is_eager=True, callback=print_overview)
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=print_version)
    ] = False,
) -> None:
    del help, version
    if ctx.invoked_subcommand is None:
        typer.echo(format_overview())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with these arguments, or with those of this process."""
    omit_httpx_program()
    try:
        build_command()(arguments)
    except (TurnlogError, OSError) as error:
        sys.exit(_report_error(error))


def _report_error(error: TurnlogError | OSError) -> int:
    # Imported only when an error is shown, because `--help` must stay fast.
    from turnlog.services.cli.console import create_error_console  # noqa: PLC0415
    from turnlog.services.cli.error_display import describe_error, print_error  # noqa: PLC0415

    failure = describe_error(error)
    print_error(failure, create_error_console())
    return failure.exit_code
