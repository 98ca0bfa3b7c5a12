"""The command that shows all sessions live."""

from __future__ import annotations

from typing import Annotated

import typer

from turnlog.contract.value_names import SessionOrder
from turnlog.services.cli.command_runner import run_with_service
from turnlog.services.cli.options import OutputOption, ReadTarget


def show_top(
    order: Annotated[
        SessionOrder,
        typer.Option(
            help="List sessions by their share of the budget, cost, failures, or latest event."
        ),
    ] = "near",
    *,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show all sessions live: turns in flight, tokens a second, cost, budgets, lag.

    Without a terminal it prints one screen.
    """
    from turnlog.services.cli.overview.top_screen import show_sessions_live

    run_with_service(
        target, lambda service: show_sessions_live(service, order, output), with_read_models=True
    )
