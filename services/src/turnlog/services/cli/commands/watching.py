"""Commands that follow a session's events or replay it."""

# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

import os
from typing import Annotated

import typer

from turnlog.services.cli.commands.late import reading, running
from turnlog.services.cli.options import Asked, InPhase, Output, Session, Stored


def tail(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="One session; without it all.")
    ] = None,
    *,
    types: Annotated[
        str | None,
        typer.Option("--types", metavar="NAMES", help="Only these: turn-submitted,turn-failed."),
    ] = None,
    after: Annotated[
        int,
        typer.Option(
            metavar="SEQUENCE", min=0, help="Only what follows: of the session, or of the stream."
        ),
    ] = 0,
    follow: Annotated[
        bool, typer.Option("--follow/--no-follow", help="Whether to wait for what comes.")
    ] = True,
    asked: Asked,
    output: Output = "table",
) -> None:
    """Watch events, one a line: those there are, then those that come."""
    from turnlog.services.cli.reader.reader import Wanted
    from turnlog.services.cli.watching import tail

    wanted = Wanted(session, after, types)
    reading(asked, lambda reader: tail(reader, wanted, output, live=follow))


def replay(
    session: Session,
    *,
    speed: Annotated[
        float, typer.Option(metavar="TIMES", min=0.1, help="How many times as fast as it was.")
    ] = 1.0,
    step: Annotated[bool, typer.Option("--step", help="Wait for Enter before each turn.")] = False,
    prompts: Annotated[
        bool, typer.Option("--prompts", help="Show what the model saw before each reply, too.")
    ] = False,
    phase: InPhase = None,
    asked: Asked,
) -> None:
    """Play a session as its user saw it, at the pace it had; with --prompts as its models did."""
    from turnlog.services.cli.watching import replay

    reading(asked, lambda reader: replay(reader, session, speed, phase, step=step, prompts=prompts))


def rebuild(*, stored: Stored) -> None:
    """Build the read models anew from the log, while readers keep the old ones."""
    from turnlog.services.cli.rebuilding import rebuild_all

    running(rebuild_all(stored, os.environ))
