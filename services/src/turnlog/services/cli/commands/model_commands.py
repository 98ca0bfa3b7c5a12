"""Commands on models: ask the server of one what it takes."""

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.command_runner import run_async
from turnlog.services.cli.options import OutputOption


def check_model(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The model, as litellm spells its name.")
    ],
    *,
    output: OutputOption = "table",
) -> None:
    """Ask the server of a model what it takes, and print the lines for a file of dialects.

    It is asked one small question for each capability, about thirty in all, with the settings
    and keys of a worker in the environment of this command. The exit code is 1 if the plain
    question has no answer or anything stays unknown.
    """
    from turnlog.services.api.published_errors.error_code import ExitCode
    from turnlog.services.cli.actions.capability_report import print_model_check

    if not run_async(print_model_check(name, output)):
        raise typer.Exit(ExitCode.ERROR)
