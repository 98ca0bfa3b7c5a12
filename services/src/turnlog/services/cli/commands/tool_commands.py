"""Commands on tool servers: start those of a blueprint and see what they offer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnlog.services.cli.command_runner import run_async
from turnlog.services.cli.options import OutputOption


def check_tools(
    blueprint: Annotated[
        str, typer.Argument(metavar="BLUEPRINT", help="Blueprint folder, or name of a shipped one.")
    ],
    *,
    tools: Annotated[
        Path | None,
        typer.Option(metavar="FILE", envvar="TURNLOG_TOOLS", help="The tools file."),
    ] = None,
    output: OutputOption = "table",
) -> None:
    """Start each tool server of a blueprint, list its tools and say what is wrong.

    The servers are started by this command, with the variables of its environment. The exit code
    is 1 if a server cannot be used.
    """
    from turnlog.services.api.published_errors.error_code import ExitCode
    from turnlog.services.cli.blueprints.local_blueprints import check_blueprint_tools

    if not run_async(check_blueprint_tools(blueprint, tools, output)):
        raise typer.Exit(ExitCode.ERROR)
