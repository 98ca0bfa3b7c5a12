"""The requests about alerts and webhooks, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnlog.client.operations import ClientOperation, build_command, build_read
from turnlog.contract import api_paths
from turnlog.contract.alert_payloads import (
    AlertChangeResult,
    AlertHistory,
    AlertPage,
    AlertResult,
)
from turnlog.contract.api_paths import format_path
from turnlog.contract.webhook_payloads import (
    AddedWebhook,
    WebhookDeliveries,
    WebhookPage,
    WebhookResult,
)


def list_alerts() -> ClientOperation[AlertPage]:
    """List the alerts with their rules and their state now."""
    return build_read(api_paths.ALERTS, AlertPage)


def fetch_alert(name: str) -> ClientOperation[AlertResult]:
    """Fetch an alert with its rule and its state now."""
    return build_read(format_path(api_paths.ALERT, name=name), AlertResult)


def fetch_alert_history(name: str, limit: int | None = None) -> ClientOperation[AlertHistory]:
    """Fetch what became of an alert, the newest first."""
    path = format_path(api_paths.ALERT_HISTORY, name=name)
    return build_read(path, AlertHistory, {"limit": limit})


def apply_alerts(
    rules: Sequence[Mapping[str, Any]], *, remove_others: bool
) -> ClientOperation[AlertChangeResult]:
    """Set rules, all of them or none."""
    form = {"alerts": [dict(rule) for rule in rules], "remove_others": remove_others}
    return build_command(api_paths.ALERTS, form, AlertChangeResult, "PUT")


def remove_alert(name: str) -> ClientOperation[AlertChangeResult]:
    """Remove the rule of an alert."""
    path = format_path(api_paths.ALERT, name=name)
    return build_command(path, None, AlertChangeResult, "DELETE")


def add_webhook(form: Mapping[str, Any]) -> ClientOperation[AddedWebhook]:
    """Deliver events to an address from now on; only this answer has the secret."""
    return build_command(api_paths.WEBHOOKS, form, AddedWebhook)


def list_webhooks() -> ClientOperation[WebhookPage]:
    """List the webhooks with how far each has got."""
    return build_read(api_paths.WEBHOOKS, WebhookPage)


def fetch_deliveries(name: str) -> ClientOperation[WebhookDeliveries]:
    """Fetch how far a webhook has got, with every session that is behind."""
    return build_read(format_path(api_paths.WEBHOOK_DELIVERIES, name=name), WebhookDeliveries)


def pause_webhook(name: str) -> ClientOperation[WebhookResult]:
    """Deliver nothing until the webhook is resumed."""
    return build_command(format_path(api_paths.PAUSE_WEBHOOK, name=name), None, WebhookResult)


def resume_webhook(name: str) -> ClientOperation[WebhookResult]:
    """Deliver from where the webhook was."""
    return build_command(format_path(api_paths.RESUME_WEBHOOK, name=name), None, WebhookResult)


def redeliver_webhook(name: str, session: str | None) -> ClientOperation[WebhookResult]:
    """Deliver what was given up, of one session or of all."""
    path = format_path(api_paths.REDELIVER_WEBHOOK, name=name)
    return build_command(path, {"session": session}, WebhookResult)


def remove_webhook(name: str) -> ClientOperation[WebhookResult]:
    """Remove a webhook."""
    path = format_path(api_paths.WEBHOOK, name=name)
    return build_command(path, None, WebhookResult, "DELETE")
