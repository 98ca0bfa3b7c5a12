"""Alerts on a terminal: all of them, one, what a command changed, and the history of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.alert_payloads import (
    AlertChangeResult,
    AlertHistory,
    AlertPage,
    AlertResult,
    AlertRuleView,
    AlertStatusName,
    AlertView,
)
from turnlog.services.cli.views.text_format import escape_controls, format_count, format_date_time
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING, create_listing


def render_alerts(page: AlertPage) -> RenderableType:
    """List the alerts."""
    if not page.alerts:
        return Text("there is no alert", MUTED)
    table = create_listing()
    for title in ("alert", "status", "since", "value", "above", "measure", "window", "for"):
        table.add_column(title, no_wrap=True)
    for each in page.alerts:
        rule = each.rule
        table.add_row(
            each.name,
            _format_status(each),
            format_date_time(each.since) if each.since else "",
            format_value(each.value),
            format_value(rule.above),
            escape_controls(rule.measure),
            rule.window or "now",
            rule.for_ or "",
        )
    return table


def render_alert(answer: AlertResult) -> RenderableType:
    """Render an alert with its rule."""
    return Group(*_iterate_facts(answer.alert))


def render_alert_change(answer: AlertChangeResult) -> RenderableType:
    """Render what a command changed."""
    lines = [Text("✓ ", GOOD).append(f"{name} set", "default") for name in answer.changed]
    lines += [Text("✓ ", GOOD).append(f"{name} removed", "default") for name in answer.removed]
    count = format_count(answer.alerts, "alert")
    return Group(*lines, Text(f"{count}{'' if lines else ', nothing changed'}", MUTED))


def render_alert_history(answer: AlertHistory) -> RenderableType:
    """List the events of an alert."""
    if not answer.events:
        return Text("nothing was recorded about it", MUTED)
    table = create_listing()
    for title in ("when", "event", "value", "above", "sessions"):
        table.add_column(title, no_wrap=title != "sessions")
    for each in answer.events:
        reason = f" ({each.reason})" if each.reason else ""
        table.add_row(
            format_date_time(each.at),
            Text(escape_controls(f"{each.event}{reason}"), _STYLES[each.status]),
            format_value(each.value),
            format_value(each.rule.above),
            escape_controls(" ".join(each.sessions)),
        )
    if answer.more:
        return Group(table, Text("there are earlier events", MUTED))
    return table


_WHOLE_FROM: Final = 1_000
"""From this value on no fraction is shown."""

_STYLES: dict[AlertStatusName, str] = {"ok": GOOD, "warning": WARNING, "raised": BAD}


def _iterate_facts(view: AlertView) -> Iterator[Text]:
    yield Text(view.name, "bold").append("  ").append_text(_format_status(view))
    if view.since:
        yield Text("since    ", MUTED).append(format_date_time(view.since), "default")
    yield Text("value    ", MUTED).append(f"{format_value(view.value)} {view.unit}".strip())
    yield Text("rule     ", MUTED).append(escape_controls(format_rule(view.rule)), "default")
    if view.sessions:
        yield Text("sessions ", MUTED).append(escape_controls(" ".join(view.sessions)), "default")


def format_rule(rule: AlertRuleView) -> str:
    """Return a rule as a line."""
    where = rule.where.model_dump(exclude_defaults=True)
    named = where.pop("attributes", {})
    narrowed = [f"{name} {value}" for name, value in where.items()]
    narrowed += [f"{name}={value}" for name, value in named.items()]
    words = [
        " ".join([rule.measure, *(["of", ", ".join(narrowed)] if narrowed else [])]),
        *([f"over {rule.window}"] if rule.window else []),
        f"above {format_value(rule.above)}",
        *([f"warning above {format_value(rule.warn)}"] if rule.warn is not None else []),
        *([f"for {rule.for_}"] if rule.for_ else []),
        *([f"no data: {rule.no_data}"] if rule.no_data != "zero" else []),
        *([f"reminding every {rule.remind}"] if rule.remind else []),
    ]
    return ", ".join(words)


def format_value(value: float | None) -> str:
    """Return a value without digits that say nothing."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= _WHOLE_FROM else f"{value:.4g}"


def _format_status(view: AlertView) -> Text:
    shown = f"{view.status}, changing" if view.pending else view.status
    return Text(shown, _STYLES[view.status])
