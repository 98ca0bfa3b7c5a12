# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.commands.late import run_async
from turnlog.services.cli.options import OutputOption, ServiceTarget, SessionArgument


def fork_session(
    session: SessionArgument,
    *,
    at: Annotated[
        int,
        typer.Option("--at", metavar="SEQUENCE", min=1, help="The last event they have in common."),
    ],
    into: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="What the fork is to be called.")
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Make a session that goes on from any place in this one, which stays as it is."""
    from turnlog.services.cli.forking import send_fork

    run_async(send_fork(target, session, at, into, output))
