"""The command on uses of a source."""

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.command_runner import show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget


def list_uses(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="document:COLLECTION/ENTRY[@REVISION], import:COLLECTION/FILE, "
            "segment:NUMBER[@VERSION], sha256:DIGEST, turn:SESSION/TURN, result:SESSION/CALL/ID, "
            "event:SESSION/SEQUENCE or label:LABEL.",
        ),
    ],
    *,
    session: Annotated[
        str | None, typer.Option("--session", metavar="SESSION", help="Only calls of this session.")
    ] = None,
    replies: Annotated[
        bool,
        typer.Option("--replies", help="Follow replies too: one may repeat what its prompt had."),
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=500, help="The most calls that are listed.")
    ] = 100,
    after: Annotated[
        str | None, typer.Option("--after", metavar="NEXT", help="Continue after a listed page.")
    ] = None,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """List the calls and replies that had a source in their prompt, and by which way.

    A prompt has a source itself, or through a summary, a text carried into a phase, a step of a
    plan, the request of a parent, the reply of a child, or a fork.
    """
    from turnlog.client import tenant_operations
    from turnlog.services.cli.uses.use_view import render_uses

    operation = tenant_operations.list_uses(
        source, session=session, replies=replies, after=after, limit=limit
    )
    show_answer(target, operation, render_uses, output, with_read_models=True)
