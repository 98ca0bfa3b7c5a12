"""Commands on alerts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnlog.services.cli.command_runner import run_command, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the alert.")]


def list_alerts(*, target: ReadTarget, output: OutputOption = "table") -> None:
    """List the alerts with their state now."""
    from turnlog.client import delivery_operations
    from turnlog.services.cli.alerts.alert_view import render_alerts

    show_answer(target, delivery_operations.list_alerts(), render_alerts, output)


def apply_alerts(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A YAML file with a list `alerts`.", exists=True)
    ],
    *,
    remove_others: Annotated[
        bool,
        typer.Option("--remove-others", help="Remove the alerts that the file does not have."),
    ] = False,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Set the rules of alerts from a file, all of them or none."""
    from turnlog.client import delivery_operations
    from turnlog.services.cli.alerts.alert_file import read_alert_file
    from turnlog.services.cli.alerts.alert_view import render_alert_change

    rules = read_alert_file(file)
    operation = delivery_operations.apply_alerts(rules, remove_others=remove_others)
    run_command(target, operation, render_alert_change, output)


def show_alert(name: NameArgument, *, target: ReadTarget, output: OutputOption = "table") -> None:
    """Show an alert with its rule and its state now."""
    from turnlog.client import delivery_operations
    from turnlog.services.cli.alerts.alert_view import render_alert

    show_answer(target, delivery_operations.fetch_alert(name), render_alert, output)


def show_alert_history(
    name: NameArgument,
    *,
    limit: Annotated[
        int, typer.Option("--limit", metavar="NUMBER", min=1, max=200, help="Most events.")
    ] = 50,
    target: ReadTarget,
    output: OutputOption = "table",
) -> None:
    """Show when an alert was raised, cleared and so on, the newest first."""
    from turnlog.client import delivery_operations
    from turnlog.services.cli.alerts.alert_view import render_alert_history

    operation = delivery_operations.fetch_alert_history(name, limit)
    show_answer(target, operation, render_alert_history, output)


def remove_alert(
    name: NameArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Remove an alert; it is cleared if it is raised."""
    from turnlog.client import delivery_operations
    from turnlog.services.cli.alerts.alert_view import render_alert_change

    run_command(target, delivery_operations.remove_alert(name), render_alert_change, output)
