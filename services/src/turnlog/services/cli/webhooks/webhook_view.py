"""Webhooks on a terminal: all of them, and one with the sessions that are behind."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.webhook_payloads import (
    AddedWebhook,
    DeliveryFailureView,
    SessionDeliveryView,
    WebhookDeliveries,
    WebhookPage,
    WebhookResult,
    WebhookView,
)
from turnlog.services.cli.views.text_format import escape_controls, format_date_time
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING, create_listing


def render_webhooks(page: WebhookPage) -> RenderableType:
    """List the webhooks."""
    if not page.webhooks:
        return Text("there is no webhook", MUTED)
    table = create_listing()
    for title in ("webhook", "status", "delivered", "after", "waiting", "behind", "given up", "to"):
        table.add_column(title, no_wrap=True)
    for each in page.webhooks:
        figures = (each.delivered, each.after, each.waiting, each.behind, each.given_up)
        numbers = (f"{number:,}" for number in figures)
        table.add_row(each.name, _format_status(each), *numbers, escape_controls(each.url))
    return table


def render_deliveries(answer: WebhookDeliveries) -> RenderableType:
    """Render how far a webhook has got."""
    lines = [*_iterate_facts(answer.webhook)]
    if not answer.sessions:
        return Group(*lines, Text("no session is behind", MUTED))
    table = create_listing()
    for title in ("session", "after", "up to", "tries", "next try", "last failure"):
        table.add_column(title, no_wrap=title != "last failure")
    for each in answer.sessions:
        numbers = (f"{number:,}" for number in (each.after, each.upto, each.tries))
        failure = _format_failure(each.failure) if each.failure else ""
        table.add_row(escape_controls(each.session), *numbers, _format_next_try(each), failure)
    return Group(*lines, table)


def render_added_webhook(answer: AddedWebhook) -> RenderableType:
    """Render a webhook that was added, with its secret."""
    secret = answer.secret or "it was shown when the webhook was added"
    return Group(
        render_webhook_change(answer),
        Text("secret  ", MUTED).append(secret, "default"),
        Text("It is shown only here: give it to the receiver now.", WARNING),
    )


def render_webhook_change(answer: WebhookResult) -> RenderableType:
    """Render a webhook after a command."""
    line = Text("✓ ", GOOD).append(answer.webhook.name, "bold")
    return Group(line, *_iterate_facts(answer.webhook))


def render_webhook_removal(answer: WebhookResult) -> RenderableType:
    """Render that a webhook was removed."""
    return Text("✓ ", GOOD).append(f"{answer.webhook.name} removed", "default")


def _iterate_facts(view: WebhookView) -> Iterator[Text]:
    yield Text("to      ", MUTED).append(escape_controls(view.url), "default")
    chosen = ["alerts"] if view.alerts else []
    chosen += [f"types {', '.join(view.types)}"] if view.types else []
    chosen += [f"blueprint {view.blueprint}"] if view.blueprint else []
    chosen += [f"{name}={value}" for name, value in view.attributes.items()]
    yield Text("gets    ", MUTED).append(escape_controls(" · ".join(chosen) or "all events"))
    yield Text("status  ", MUTED).append_text(_format_status(view))
    place = f"{view.delivered:,} delivered, up to position {view.after:,}"
    yield Text("place   ", MUTED).append(f"{place}; {view.waiting:,} of the log after it")
    if view.failure:
        yield Text("failure ", MUTED).append(_format_failure(view.failure), BAD)


def _format_status(view: WebhookView) -> Text:
    styles = {"active": GOOD, "paused": WARNING, "stopped": BAD}
    return Text(view.status, styles[view.status])


def _format_next_try(each: SessionDeliveryView) -> str:
    if each.given_up:
        return "given up"
    return format_date_time(each.next_try) if each.next_try else "now"


def _format_failure(failure: DeliveryFailureView) -> str:
    return escape_controls(f"{format_date_time(failure.at)} {failure.detail}")
