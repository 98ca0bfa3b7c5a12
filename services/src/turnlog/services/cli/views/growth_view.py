"""The growth of the context of a session or of all: bars by component, and what was saved.

All bars of one view have the same scale, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.contract.call_payloads import CallMetrics, GroupMetrics, GrowthView
from turnlog.projections.session_views.cost_totals import CostTotal, add_costs
from turnlog.services.cli.views.cache_view import render_caches
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_cost,
    format_cost_sum,
    format_count,
)
from turnlog.services.cli.views.theme import (
    GOOD,
    MUTED,
    WARNING,
    choose_colours,
    create_listing,
)
from turnlog.services.cli.views.token_view import split_columns

GROWTH_BAR_WIDTH: Final = 24
"""Columns of the longest bar."""

_TOKENS_SUFFIX: Final = "_tokens"


def render_growth(growth: GrowthView) -> RenderableType:
    """Render one bar per call of a session, or one bar per group of calls."""
    shows_calls = is_listing_calls(growth)
    if not (shows_calls or growth.groups):
        return Text("no call was made yet", MUTED)
    taken = _sum_components(growth.calls if shows_calls else growth.groups)
    colours = choose_colours(taken)
    lines = (
        _render_calls(growth.calls, colours)
        if shows_calls
        else _render_groups(growth.groups, colours)
    )
    return Group(
        _render_title(growth),
        Text(),
        lines,
        Text(),
        _render_legend(taken, colours),
        *_render_growth_totals(growth),
    )


def is_listing_calls(growth: GrowthView) -> bool:
    """Return whether the calls of a session are shown, because these were not to be grouped."""
    is_grouped = any(group.key or group.at for group in growth.groups)
    return bool(growth.calls) and not is_grouped


def _sum_components(counted: Iterable[CallMetrics | GroupMetrics]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counted:
        for name, tokens in each.components.items():
            total[name] = total.get(name, 0) + tokens
    return {name: tokens for name, tokens in total.items() if tokens}


def _render_title(growth: GrowthView) -> Text:
    calls = sum(group.calls for group in growth.groups)
    copied = sum(call.copied for call in growth.calls)
    line = Text().append(f"growth of {growth.session or 'all sessions'}", "bold")
    costs = (CostTotal(**group.cost.model_dump()) for group in growth.groups)
    cost = format_cost_sum(add_costs(costs))
    of_original = f"{copied:,} more copied from its original" if copied else ""
    facts = " · ".join(filter(None, (format_count(calls, "call"), of_original, cost)))
    return line.append(f"  {facts}", MUTED)


def _render_calls(calls: Sequence[CallMetrics], colours: Mapping[str, str]) -> Table:
    table = create_listing()
    table.add_column("call", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    for title in ("tokens", "budget"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("by component", no_wrap=True)
    table.add_column("saved", no_wrap=True)
    most = max(call.tokens for call in calls)
    for call in calls:
        share = f"{call.tokens / call.budget:.0%}" if call.budget else ""
        bar = _render_bar(call.components, call.tokens, most, colours)
        kind = Text(call.kind).append(" copied" if call.copied else "", MUTED)
        table.add_row(call.call, kind, f"{call.tokens:,}", share, bar, _render_savings(call))
    return table


def _render_savings(call: CallMetrics) -> Text:
    lines = [
        Text(f"{n:,} by ").append(escape_controls(rule), WARNING) for rule, n in call.saved.items()
    ]
    lines += (
        [Text(f"without {format_count(call.cut_turns, 'turn')}", MUTED)] if call.cut_turns else []
    )
    return Text("\n").join(lines)


def _render_groups(groups: Sequence[GroupMetrics], colours: Mapping[str, str]) -> Table:
    table = create_listing()
    has_times = any(group.at for group in groups)
    if has_times:
        table.add_column("from (UTC)", no_wrap=True, style=MUTED)
    for title in groups[0].key or [""]:
        table.add_column(title, no_wrap=True)
    for title in ("calls", "tokens a call", "p95"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("by component", no_wrap=True)
    for title in ("saved", "cost"):
        table.add_column(title, justify="right", no_wrap=True)
    most = max(group.tokens // group.calls for group in groups)
    for group in groups:
        names = [escape_controls(value or "unknown") for value in group.key.values()] or ["all"]
        each = group.tokens // group.calls
        bar = _render_bar(group.components, each, most, colours)
        saved = Text(
            f"{_compute_savings_share(group):.0%}", GOOD if group.savings_estimate else MUTED
        )
        cost = format_cost(group.cost)
        times = [(group.at or "")[:16].replace("T", " ")] if has_times else []
        p95 = f"{group.prompt_sizes.p95:,}" if group.prompt_sizes else ""
        table.add_row(*times, *names, f"{group.calls:,}", f"{each:,}", p95, bar, saved, cost)
    return table


def _render_bar(
    components: Mapping[str, int], tokens: int, most: int, colours: Mapping[str, str]
) -> Text:
    bar = Text()
    columns = max(1, GROWTH_BAR_WIDTH * tokens // most) if tokens else 0
    counted = [(name, count) for name, count in components.items() if count]
    shares = split_columns([count for _, count in counted], max(columns, len(counted)))
    for (name, _), width in zip(counted, shares, strict=True):
        bar.append("█" * width, colours[name])
    return bar


def _render_legend(taken: Mapping[str, int], colours: Mapping[str, str]) -> Table:
    total = sum(taken.values())
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right"):
        table.add_column(justify=justify)
    for name, tokens in taken.items():
        square = (
            Text()
            .append("■ ", colours[name])
            .append(escape_controls(name.removesuffix(_TOKENS_SUFFIX)))
        )
        table.add_row(square, f"{tokens:,}", Text(f"{tokens / total:.0%}", MUTED))
    return table


def _render_growth_totals(growth: GrowthView) -> Iterator[Text]:
    saved = sum(group.savings_estimate for group in growth.groups)
    cached = sum(group.cached_tokens for group in growth.groups)
    cut = sum(group.cut_turns for group in growth.groups)
    yield Text()
    if saved:
        share = _compute_savings_share(*growth.groups)
        line = Text(f"saved {format_count(saved, 'token')}", GOOD).append(
            f", {share:.0%} of what", MUTED
        )
        yield line.append(" would have been sent", MUTED)
        yield from _render_rules(growth.groups)
    if cut:
        yield Text(f"cut to fit: {format_count(cut, 'turn')}, counted in each call", WARNING)
    if cached:
        share = cached / sum(group.input_tokens for group in growth.groups)
        line = Text(f"{share:.0%} of what was sent came from caches", MUTED)
        yield line.append(f": {format_count(cached, 'token')}", MUTED)
    if caches := render_caches(use for group in growth.groups for use in group.caches):
        yield caches
    yield from _render_prefix_breaks(growth.groups)
    for group in growth.groups:
        if group.retrieval_hit_rate is not None:
            of = "".join(f" of {each}" for each in (*group.key.values(), group.at) if each)
            yield Text(
                f"retrieval found something in {group.retrieval_hit_rate:.0%} of the calls{of}",
                MUTED,
            )
    if growth.history_growth is not None:
        yield Text(f"history grows by {growth.history_growth:,.1f} tokens a turn", MUTED)


def _render_rules(groups: Sequence[GroupMetrics]) -> Iterator[Text]:
    found = _sum_by_name((each.rule, each.calls, each.tokens) for g in groups for each in g.rules)
    for rule, (calls, tokens) in found:
        line = Text("  ").append(escape_controls(rule), WARNING)
        yield line.append(
            f" {format_count(tokens, 'token')} in {format_count(calls, 'call')}", MUTED
        )


def _render_prefix_breaks(groups: Sequence[GroupMetrics]) -> Iterator[Text]:
    found = _sum_by_name(
        (each.layer, each.calls, each.tokens) for g in groups for each in g.prefix_breaks
    )
    if found:
        yield Text("no cache could be read of the earlier prompt from a changed layer on:", MUTED)
    for layer, (calls, tokens) in found:
        line = Text("  ").append(escape_controls(layer), WARNING)
        yield line.append(
            f" {format_count(tokens, 'token')} in {format_count(calls, 'call')}", MUTED
        )


def _sum_by_name(
    counted: Iterable[tuple[str, int, int]],
) -> Sequence[tuple[str, tuple[int, int]]]:
    """Sum calls and tokens by name; the one with most tokens comes first."""
    sums: dict[str, tuple[int, int]] = {}
    for name, calls, tokens in counted:
        before = sums.get(name, (0, 0))
        sums[name] = (before[0] + calls, before[1] + tokens)
    return sorted(sums.items(), key=lambda each: -each[1][1])


def _compute_savings_share(*groups: GroupMetrics) -> float:
    """Return the saved share of the tokens that would have been sent."""
    saved = sum(group.savings_estimate for group in groups)
    return saved / (_sum_tokens(groups) + saved) if saved else 0


def _sum_tokens(groups: Iterable[GroupMetrics]) -> int:
    return sum(group.tokens for group in groups)
