# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.commands.late import reading, running
from turnlog.services.cli.options import Asked, Output, Served, Session


def summaries(session: Session, *, asked: Asked, output: Output = "table") -> None:
    """Show what a model summed up of older turns, where it stands in their place."""
    from turnlog.services.cli.forgetting import show_summaries

    reading(asked, lambda reader: show_summaries(reader, session, output))


def undo(
    session: Session,
    sequence: Annotated[
        int, typer.Argument(metavar="SEQUENCE", min=1, help="The event that holds the summary.")
    ],
    *,
    served: Served,
    output: Output = "table",
) -> None:
    """Undo a summary: windows show again what they showed before it."""
    from turnlog.services.cli.forgetting import undo

    running(undo(served, session, sequence, output))


def purge(session: Session, *, served: Served, output: Output = "table") -> None:
    """Let windows begin anew: no turn so far stands in them; the record keeps all of it."""
    from turnlog.services.cli.forgetting import purge

    running(purge(served, session, output))
