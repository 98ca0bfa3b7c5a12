"""The command on the log of reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from turnlog.services.cli.command_runner import show_answer
from turnlog.services.cli.options import LookTarget, OutputOption


@dataclass(frozen=True, slots=True, kw_only=True)
class LookOptions:
    """Which looks `turnlog audit` lists, as the query of `GET /v1/reads` says."""

    actor: Annotated[
        str | None,
        typer.Option("--actor", metavar="ACTOR", help="Only looks of this actor: user:NAME."),
    ] = None
    session: Annotated[
        str | None, typer.Option("--session", metavar="SESSION", help="Only looks at this session.")
    ] = None
    what: Annotated[
        str | None,
        typer.Option(
            "--what",
            metavar="prompt|assembly|window|why|diff|what-if|withheld|bundle|export|reads",
            help="Only looks of this kind.",
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only looks at or after this time; by default 31 days."),
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only looks before this time.")
    ] = None
    before: Annotated[
        str | None, typer.Option(metavar="PLACE", help="Go on where the last page ended.")
    ] = None
    limit: Annotated[
        int, typer.Option("--limit", metavar="NUMBER", min=1, max=1_000, help="Most looks.")
    ] = 100


def list_reads(
    *, selection: LookOptions, target: LookTarget, output: OutputOption = "table"
) -> None:
    """List who looked at prompts, withheld texts, bundles and exports, the newest first.

    Looking at this list is recorded in it too.
    """
    from turnlog.client import tenant_operations
    from turnlog.services.cli.reads.read_view import render_reads

    show_answer(target, tenant_operations.list_reads(asdict(selection)), render_reads, output)
