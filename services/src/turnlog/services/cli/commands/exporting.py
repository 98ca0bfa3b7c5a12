# ruff: noqa: PLC0415 - a command imports its work when it is called, so that help stays quick

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from turnlog.services.cli.commands.late import run_with_reader
from turnlog.services.cli.options import ReadTarget


def export_sessions(
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION...", help="The sessions.")],
    *,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="DIR|FILE.zip", help="As a bundle that a stranger can check."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="A signed checkpoint to put with it."
        ),
    ] = None,
    format: Annotated[  # noqa: A002 - the name of the option
        Literal["ndjson", "parquet", "chat"],
        typer.Option(help="Without a bundle: stored lines, a table, or talk in Markdown."),
    ] = "ndjson",
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE|DIR", help="Where to; a folder for more than one session."),
    ] = None,
    target: ReadTarget,
) -> None:
    """Take sessions out, as a bundle that a stranger can check, as lines, as a table, as talk.

    A bundle holds events as they are stored, the texts they name, and one file of Python that
    checks it all with nothing installed: `python3 -I verify.py`. What a rule withheld was never in
    an event; a reply that was redacted later stands where it was said, and how many is told.
    """
    from turnlog.services.cli.exporting import export_bundle, export_files

    if bundle is None:
        if checkpoint is not None:
            raise typer.BadParameter("it goes into a bundle", param_hint="--checkpoint")
        run_with_reader(target, lambda reader: export_files(reader, sessions, format, to))
    else:
        run_with_reader(target, lambda reader: export_bundle(reader, sessions, bundle, checkpoint))
