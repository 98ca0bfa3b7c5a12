"""What became of the caches of providers: in words, and the causes of what was lost as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.contract.call_payloads import CacheBreak, CacheBreakList, CacheUseMetrics
from turnlog.projections.session_views.cost_totals import CostTotal, add_costs
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_cost,
    format_count,
)
from turnlog.services.cli.views.theme import MUTED, WARNING, create_listing

_MISSES: Final[Mapping[str, str]] = {
    "expired": "kept no longer",
    "model": "another model",
    "provider": "not read, for no reason we know",
}


def render_cache_breaks(found: CacheBreakList) -> RenderableType:
    """Render the causes as a table, and how to see what the dearest change was."""
    if not found.breaks:
        return Text("no cache is known to have been lost", MUTED)
    table = create_listing()
    for title in ("blueprint", "cause"):
        table.add_column(title, no_wrap=True)
    for title in ("calls", "tokens", "cost"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("worst call", no_wrap=True)
    for each in found.breaks:
        _add_break(table, each)
    changed = [each for each in found.breaks if each.lost.outcome == "broken"]
    return Group(table, *map(_render_hint, changed[:1]))


def _render_hint(worst: CacheBreak) -> Text:
    pair = f"{worst.prefix_call} {worst.call}"
    hint = f"turnlog diff {escape_controls(worst.session)} {pair}"
    return Text("\nwhat changed: ", MUTED).append(hint)


def _add_break(table: Table, found: CacheBreak) -> None:
    version = "" if found.version is None else f" v{found.version}"
    lost = found.lost
    worst = Text(escape_controls(found.session)).append(
        f" {found.call} · {format_count(found.tokens, 'token')}", MUTED
    )
    table.add_row(
        f"{escape_controls(found.blueprint)}{version}",
        describe_cause(lost),
        f"{lost.calls:,}",
        f"{lost.tokens:,}",
        format_cost(lost.cost),
        worst,
    )


def describe_cause(use: CacheUseMetrics) -> Text:
    """Say why a cache was not read, as far as it could be."""
    cause = use.cause or ""
    if use.outcome == "broken":
        return Text("changed: ", MUTED).append(escape_controls(cause), WARNING)
    return Text(_MISSES.get(cause, cause), WARNING)


def render_caches(uses: Iterable[CacheUseMetrics]) -> Text | None:
    """Render what calls lost together; None if they lost nothing that is known."""
    lost = [use for use in uses if use.tokens]
    if not lost:
        return None
    calls, tokens = sum(use.calls for use in lost), sum(use.tokens for use in lost)
    cost = format_cost(add_costs(CostTotal(**use.cost.model_dump()) for use in lost))
    what = f"caches lost {format_count(tokens, 'token')} in {format_count(calls, 'call')}"
    return Text(" · ".join(filter(None, (what, cost))), WARNING)
