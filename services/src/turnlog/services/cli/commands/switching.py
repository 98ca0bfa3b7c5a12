"""Commands that change how a session continues, and the one that shows a tool result."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.commands.late import run_async
from turnlog.services.cli.options import OutputOption, ServiceTarget, SessionArgument


def switch_profile(
    session: SessionArgument,
    *,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile", metavar="PROFILE", help="Without it the present one; say one of the two."
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="Without it the profile's own."),
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Let a session go on by another profile or another model, from its next turn on."""
    from turnlog.services.cli.switching import send_switch

    run_async(send_switch(target, session, profile, model, output))
