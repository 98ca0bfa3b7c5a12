"""Commands on webhooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from turnlog.services.cli.command_runner import run_command, show_answer
from turnlog.services.cli.options import OutputOption, ReadTarget, ServiceTarget

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the webhook.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFilterOptions:
    """Which events a webhook gets."""

    types: Annotated[
        str | None,
        typer.Option(
            "--types",
            metavar="NAMES",
            help="Only these events, such as turn-completed,turn-failed.",
        ),
    ] = None
    blueprint: Annotated[
        str | None,
        typer.Option("--blueprint", metavar="NAME", help="Only sessions of this blueprint."),
    ] = None
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            metavar="NAME=VALUE",
            help="Only sessions with this attribute; may be repeated.",
        ),
    ] = None
    alerts: Annotated[
        bool,
        typer.Option("--alerts", help="Events of alerts instead of those of sessions."),
    ] = False
    after: Annotated[
        int | None,
        typer.Option(
            "--after",
            metavar="POSITION",
            min=0,
            help="Begin after this position of the log, 0 its beginning; by default now.",
        ),
    ] = None


def add_webhook(
    name: NameArgument,
    to: Annotated[str, typer.Argument(metavar="ADDRESS", help="Where events are posted to.")],
    *,
    filters: WebhookFilterOptions,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Deliver events to an address from now on.

    The secret that deliveries are signed with is shown once, here.
    """
    from turnlog.client import delivery_operations
    from turnlog.services.cli.key_value_args import parse_pairs
    from turnlog.services.cli.webhooks.webhook_view import render_added_webhook

    form = {
        "name": name,
        "url": to,
        "types": filters.types.split(",") if filters.types else [],
        "blueprint": filters.blueprint,
        "attributes": parse_pairs(filters.attribute or (), "--attribute"),
        "after": filters.after,
        "alerts": filters.alerts or None,
    }
    run_command(target, delivery_operations.add_webhook(form), render_added_webhook, output)


def list_webhooks(*, target: ReadTarget, output: OutputOption = "table") -> None:
    """List the webhooks with how far each has got."""
    from turnlog.client import delivery_operations
    from turnlog.services.cli.webhooks.webhook_view import render_webhooks

    show_answer(target, delivery_operations.list_webhooks(), render_webhooks, output)


def show_deliveries(
    name: NameArgument, *, target: ReadTarget, output: OutputOption = "table"
) -> None:
    """Show how far a webhook has got, with every session that is behind."""
    from turnlog.client import delivery_operations
    from turnlog.services.cli.webhooks.webhook_view import render_deliveries

    show_answer(target, delivery_operations.fetch_deliveries(name), render_deliveries, output)


def pause_webhook(
    name: NameArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Deliver nothing until the webhook is resumed."""
    from turnlog.client import delivery_operations
    from turnlog.services.cli.webhooks.webhook_view import render_webhook_change

    run_command(target, delivery_operations.pause_webhook(name), render_webhook_change, output)


def resume_webhook(
    name: NameArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Deliver from where the webhook was, also after it was stopped by failures."""
    from turnlog.client import delivery_operations
    from turnlog.services.cli.webhooks.webhook_view import render_webhook_change

    run_command(target, delivery_operations.resume_webhook(name), render_webhook_change, output)


def redeliver_webhook(
    name: NameArgument,
    *,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="SESSION", help="Only this session; by default all."),
    ] = None,
    target: ServiceTarget,
    output: OutputOption = "table",
) -> None:
    """Deliver the sessions that were given up, from where each of them was."""
    from turnlog.client import delivery_operations
    from turnlog.services.cli.webhooks.webhook_view import render_webhook_change

    operation = delivery_operations.redeliver_webhook(name, session)
    run_command(target, operation, render_webhook_change, output)


def remove_webhook(
    name: NameArgument, *, target: ServiceTarget, output: OutputOption = "table"
) -> None:
    """Remove a webhook; nothing more is delivered to it."""
    from turnlog.client import delivery_operations
    from turnlog.services.cli.webhooks.webhook_view import render_webhook_removal

    run_command(target, delivery_operations.remove_webhook(name), render_webhook_removal, output)
