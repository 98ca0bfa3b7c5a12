"""Commands on consumption."""

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.services.cli.command_runner import show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget


def show_usage(
    group_by: Annotated[
        str,
        typer.Option(
            "--group-by",
            metavar="all|user|profile|blueprint|model|day|hour|failure|attribute.NAME",
            help="Group turns by this; attribute.NAME is an attribute of their session.",
        ),
    ] = "all",
    user: Annotated[
        str | None, typer.Option("--user", metavar="USER", help="Only turns of this user.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only turns submitted at or after this time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only turns submitted before this time.")
    ] = None,
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show what turns used: tokens, cost, failures, and what retrieval saved."""
    from turnlog.client import tenant_operations
    from turnlog.services.cli.usage.usage_view import render_usage

    query = {"group_by": group_by, "user": user, "since": since, "until": until}
    show_answer(
        target,
        tenant_operations.fetch_usage(query),
        lambda report: render_usage(report, group_by),
        output,
        with_read_models=True,
    )
