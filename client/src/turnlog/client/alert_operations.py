"""The requests about alerts, as values."""

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
