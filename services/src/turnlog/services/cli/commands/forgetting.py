# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.commands.late import run_with_reader, run_async
from turnlog.services.cli.options import ReadTarget, OutputOption, ServiceTarget, SessionArgument


def show_summaries(session: SessionArgument, *, target: ReadTarget, output: OutputOption = "table") -> None:
    """Show what a model summed up of older turns, where it stands in their place."""
    from turnlog.services.cli.forgetting import print_summaries

    run_with_reader(target, lambda reader: print_summaries(reader, session, output))


def undo_summary(
    session: SessionArgument,
    sequence: Annotated[
        int, typer.Argument(metavar="SEQUENCE", min=1, help="The event that holds the summary.")
    ],
    *,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Undo a summary: windows show again what they showed before it."""
    from turnlog.services.cli.forgetting import send_undo

    run_async(send_undo(target, session, sequence, output))


def purge_memory(session: SessionArgument, *, target: ServiceTarget, output: OutputOption = "table") -> None:
    """Let windows begin anew: no turn so far stands in them; the record keeps all of it."""
    from turnlog.services.cli.forgetting import send_purge

    run_async(send_purge(target, session, output))
