from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.services.cli.screens.bars import split_columns
from turnlog.services.cli.screens.palette import GOOD, MUTED, WARNING, choose_colours
from turnlog.services.cli.screens.sessions import create_listing
from turnlog.services.cli.screens.spelling import format_count, escape_controls
from turnlog.services.gateway.payloads.growth import CallMetrics, GroupMetrics, GrowthView

GROWTH_BAR_WIDTH: Final = 24
"""Columns of the longest bar."""
_TOKENS_SUFFIX: Final = "_tokens"


def render_growth(growth: GrowthView, by: str) -> RenderableType:
    """Render one bar per call of a session, or one bar per group of calls."""
    if not growth.groups:
        return Text("no call was made yet", MUTED)
    taken = _sum_components(growth.groups)
    colours = choose_colours(taken)
    alone = growth.calls and by == "all"
    lines = _render_calls(growth.calls, colours) if alone else _render_groups(growth.groups, by, colours)
    return Group(_render_title(growth), Text(), lines, Text(), _render_legend(taken, colours), *_render_growth_totals(growth))


def _sum_components(groups: Iterable[GroupMetrics]) -> dict[str, int]:
    """Sum the tokens of components that have any."""
    total: dict[str, int] = {}
    for group in groups:
        for name, tokens in group.components.items():
            total[name] = total.get(name, 0) + tokens
    return {name: tokens for name, tokens in total.items() if tokens}


def _render_title(growth: GrowthView) -> Text:
    calls = sum(group.calls for group in growth.groups)
    line = Text().append(f"growth of {growth.session or 'all sessions'}", "bold")
    return line.append(f"  {format_count(calls, 'call')}", MUTED)


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
        table.add_row(call.call, call.kind, f"{call.tokens:,}", share, bar, _render_savings(call))
    return table


def _render_savings(call: CallMetrics) -> Text:
    said = [Text(f"{n:,} by ").append(escape_controls(rule), WARNING) for rule, n in call.saved.items()]
    said += [Text(f"without {format_count(call.cut_turns, 'turn')}", MUTED)] if call.cut_turns else []
    return Text("\n").join(said)


def _render_groups(groups: Sequence[GroupMetrics], by: str, colours: Mapping[str, str]) -> Table:
    table = create_listing()
    table.add_column("" if by == "all" else by, no_wrap=True)
    for title in ("calls", "tokens a call"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("by component", no_wrap=True)
    table.add_column("saved", justify="right", no_wrap=True)
    most = max(group.tokens // group.calls for group in groups)
    for group in groups:
        name = "all" if by == "all" else escape_controls(group.group or "unknown")
        each = group.tokens // group.calls
        bar = _render_bar(group.components, each, most, colours)
        saved = Text(f"{_compute_savings_share(group):.0%}", GOOD if group.savings_estimate else MUTED)
        table.add_row(name, f"{group.calls:,}", f"{each:,}", bar, saved)
    return table


def _render_bar(components: Mapping[str, int], tokens: int, most: int, colours: Mapping[str, str]) -> Text:
    bar = Text()
    columns = max(1, GROWTH_BAR_WIDTH * tokens // most) if tokens else 0
    standing = [(name, count) for name, count in components.items() if count]
    shares = split_columns([count for _, count in standing], max(columns, len(standing)))
    for (name, _), width in zip(standing, shares, strict=True):
        bar.append("█" * width, colours[name])
    return bar


def _render_legend(taken: Mapping[str, int], colours: Mapping[str, str]) -> Table:
    whole = sum(taken.values())
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right"):
        table.add_column(justify=justify)
    for name, tokens in taken.items():
        square = Text().append("■ ", colours[name]).append(escape_controls(name.removesuffix(_TOKENS_SUFFIX)))
        table.add_row(square, f"{tokens:,}", Text(f"{tokens / whole:.0%}", MUTED))
    return table


def _render_growth_totals(growth: GrowthView) -> Iterator[Text]:
    saved = sum(group.savings_estimate for group in growth.groups)
    cut = sum(group.cut_turns for group in growth.groups)
    yield Text()
    if saved:
        share = _compute_savings_share(*growth.groups)
        line = Text(f"saved {format_count(saved, 'token')}", GOOD).append(
            f", {share:.0%} of what", MUTED
        )
        yield line.append(" would have been sent", MUTED)
    if cut:
        yield Text(f"cut to fit: {format_count(cut, 'turn')}, counted in each call", WARNING)
    if growth.history_growth is not None:
        yield Text(f"history grows by {growth.history_growth:,.1f} tokens a turn", MUTED)


def _compute_savings_share(*groups: GroupMetrics) -> float:
    """Return the saved share of the tokens that would have been sent."""
    saved = sum(group.savings_estimate for group in groups)
    return saved / (_sum_tokens(groups) + saved) if saved else 0


def _sum_tokens(groups: Iterable[GroupMetrics]) -> int:
    return sum(group.tokens for group in groups)
