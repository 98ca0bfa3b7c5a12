"""Render what turns used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.contract.usage_payloads import UsageReport, UsageView
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_cost,
    format_count,
    format_one_line,
)
from turnlog.services.cli.views.theme import MUTED, create_listing

_COLUMNS: Final = (
    *("turns", "failed", "cancelled", "open", "guided"),
    *("sent", "from cache", "received", "saved", "cost"),
)


def render_usage(report: UsageReport, group_by: str) -> RenderableType:
    """Render the groups and the total, and which models and profiles there were."""
    table = create_listing()
    table.add_column("" if group_by == "all" else group_by, no_wrap=True)
    for title in _COLUMNS:
        table.add_column(title, justify="right", no_wrap=True)
    for usage in report.groups:
        name = usage.group or ("(none)" if group_by == "failure" else "(unknown)")
        table.add_row(format_one_line(name), *_format_figures(usage))
    table.add_row(Text("all", "bold"), *_format_figures(report.total))
    lines = [
        f"{name}: {_format_counts(counts)}"
        for name, counts in (("models", report.models), ("profiles", report.profiles))
        if counts
    ]
    if written := report.total.cache_write_tokens:
        lines.append(f"written to caches: {format_count(written, 'token')}")
    if report.total.saving_turns:
        lines.append(_format_savings(report.total))
    return Group(table, *(Text(line, MUTED) for line in lines))


def _format_savings(usage: UsageView) -> str:
    turns = format_count(usage.saving_turns, "turn")
    tokens = format_count(usage.saved_tokens, "output token")
    return f"saved: {tokens} in {turns}, {format_cost(usage.saved_cost)}"


def _format_figures(usage: UsageView) -> tuple[str, ...]:
    turns = (usage.turns, usage.failed, usage.cancelled, usage.open, usage.guided)
    tokens = (
        *(usage.input_tokens, usage.cached_tokens),
        *(usage.output_tokens, usage.saved_tokens),
    )
    return (*(f"{number:,}" for number in (*turns, *tokens)), format_cost(usage.cost))


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(
        f"{escape_controls(name)} ({format_count(turns, 'turn')})" for name, turns in counts.items()
    )
