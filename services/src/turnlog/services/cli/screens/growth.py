from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.services.cli.screens.bars import widths
from turnlog.services.cli.screens.palette import GOOD, QUIET, WARY, coloured
from turnlog.services.cli.screens.sessions import listing
from turnlog.services.cli.screens.spelling import counted, harmless
from turnlog.services.gateway.payloads.growth import CallMetrics, GroupMetrics, GrowthView

BAR: Final = 24
"""Columns of the longest bar."""
_UNIT: Final = "_tokens"


def growth_screen(growth: GrowthView, by: str) -> RenderableType:
    """Render one bar per call of a session, or one bar per group of calls."""
    if not growth.groups:
        return Text("no call was made yet", QUIET)
    taken = _taken(growth.groups)
    colours = coloured(taken)
    alone = growth.calls and by == "all"
    lines = _calls(growth.calls, colours) if alone else _groups(growth.groups, by, colours)
    return Group(_title(growth), Text(), lines, Text(), _legend(taken, colours), *_totals(growth))


def _taken(groups: Iterable[GroupMetrics]) -> dict[str, int]:
    """Sum the tokens of components that have any."""
    total: dict[str, int] = {}
    for group in groups:
        for name, tokens in group.components.items():
            total[name] = total.get(name, 0) + tokens
    return {name: tokens for name, tokens in total.items() if tokens}


def _title(growth: GrowthView) -> Text:
    calls = sum(group.calls for group in growth.groups)
    line = Text().append(f"growth of {growth.session or 'all sessions'}", "bold")
    return line.append(f"  {counted(calls, 'call')}", QUIET)


def _calls(calls: Sequence[CallMetrics], colours: Mapping[str, str]) -> Table:
    table = listing()
    table.add_column("call", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    for title in ("tokens", "budget"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("by component", no_wrap=True)
    table.add_column("saved", no_wrap=True)
    most = max(call.tokens for call in calls)
    for call in calls:
        share = f"{call.tokens / call.budget:.0%}" if call.budget else ""
        bar = _bar(call.components, call.tokens, most, colours)
        table.add_row(call.call, call.kind, f"{call.tokens:,}", share, bar, _saved(call))
    return table


def _saved(call: CallMetrics) -> Text:
    said = [Text(f"{n:,} by ").append(harmless(rule), WARY) for rule, n in call.saved.items()]
    said += [Text(f"without {counted(call.cut_turns, 'turn')}", QUIET)] if call.cut_turns else []
    return Text("\n").join(said)


def _groups(groups: Sequence[GroupMetrics], by: str, colours: Mapping[str, str]) -> Table:
    table = listing()
    table.add_column("" if by == "all" else by, no_wrap=True)
    for title in ("calls", "tokens a call"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("by component", no_wrap=True)
    table.add_column("saved", justify="right", no_wrap=True)
    most = max(group.tokens // group.calls for group in groups)
    for group in groups:
        name = "all" if by == "all" else harmless(group.group or "unknown")
        each = group.tokens // group.calls
        bar = _bar(group.components, each, most, colours)
        saved = Text(f"{_share(group):.0%}", GOOD if group.savings_estimate else QUIET)
        table.add_row(name, f"{group.calls:,}", f"{each:,}", bar, saved)
    return table


def _bar(components: Mapping[str, int], tokens: int, most: int, colours: Mapping[str, str]) -> Text:
    bar = Text()
    columns = max(1, BAR * tokens // most) if tokens else 0
    standing = [(name, count) for name, count in components.items() if count]
    shares = widths([count for _, count in standing], max(columns, len(standing)))
    for (name, _), width in zip(standing, shares, strict=True):
        bar.append("█" * width, colours[name])
    return bar


def _legend(taken: Mapping[str, int], colours: Mapping[str, str]) -> Table:
    whole = sum(taken.values())
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right"):
        table.add_column(justify=justify)
    for name, tokens in taken.items():
        square = Text().append("■ ", colours[name]).append(harmless(name.removesuffix(_UNIT)))
        table.add_row(square, f"{tokens:,}", Text(f"{tokens / whole:.0%}", QUIET))
    return table


def _totals(growth: GrowthView) -> Iterator[Text]:
    saved = sum(group.savings_estimate for group in growth.groups)
    cut = sum(group.cut_turns for group in growth.groups)
    yield Text()
    if saved:
        share = _share(*growth.groups)
        line = Text(f"saved {counted(saved, 'token')}", GOOD).append(
            f", {share:.0%} of what", QUIET
        )
        yield line.append(" would have been sent", QUIET)
    if cut:
        yield Text(f"cut to fit: {counted(cut, 'turn')}, counted in each call", WARY)
    if growth.history_growth is not None:
        yield Text(f"history grows by {growth.history_growth:,.1f} tokens a turn", QUIET)


def _share(*groups: GroupMetrics) -> float:
    """Return the saved share of the tokens that would have been sent."""
    saved = sum(group.savings_estimate for group in groups)
    return saved / (_whole(groups) + saved) if saved else 0


def _whole(groups: Iterable[GroupMetrics]) -> int:
    return sum(group.tokens for group in groups)
