"""The command on approvals of all sessions."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from turnlog.services.cli.command_runner import show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget


def list_approvals(
    state: Annotated[
        Literal["pending", "approved", "refused"],
        typer.Option("--state", help="Those that wait for a person, or decided ones."),
    ] = "pending",
    user: Annotated[
        str | None, typer.Option("--user", metavar="USER", help="Only turns of this user.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Only those requested at or after this time."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=500, help="The most approvals that are listed.")
    ] = 50,
    before: Annotated[
        str | None, typer.Option("--before", metavar="NEXT", help="Continue after a listed page.")
    ] = None,
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """List the tools of all sessions that wait for a person, or that were decided, newest first."""
    from turnlog.client import tenant_operations
    from turnlog.services.cli.approvals.approval_view import render_approvals

    query: dict[str, str | int | None] = {
        "state": state,
        "user": user,
        "since": since,
        "limit": limit,
        "before": before,
    }
    operation = tenant_operations.list_approvals(query)
    show_answer(target, operation, render_approvals, output, with_read_models=True)
