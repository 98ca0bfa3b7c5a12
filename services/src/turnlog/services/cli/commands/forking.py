# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.commands.late import running
from turnlog.services.cli.options import Output, Served, Session


def fork(
    session: Session,
    *,
    at: Annotated[
        int,
        typer.Option("--at", metavar="SEQUENCE", min=1, help="The last event they have in common."),
    ],
    into: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="What the fork is to be called.")
    ] = None,
    served: Served,
    output: Output = "table",
) -> None:
    """Make a session that goes on from any place in this one, which stays as it is."""
    from turnlog.services.cli.forking import fork

    running(fork(served, session, at, into, output))
