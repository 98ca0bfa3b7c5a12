"""Token counts of one prompt by component, and how far it begins as an earlier one did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.events.model.manifest import CachePrefix, CounterRef, Manifest, PromptPart
from turnlog.projections.audit.diff.call_diff import PrefixAgreement
from turnlog.services.cli.views.text_format import (
    format_count,
)
from turnlog.services.cli.views.theme import (
    GOOD,
    MUTED,
    WARNING,
    choose_component_colours,
    render_budget_share,
)

PROMPT_BAR_WIDTH = 60
"""Columns of the bar of one prompt."""


@dataclass(frozen=True, slots=True)
class PromptShare:
    """The tokens and parts of one component of a prompt."""

    component: str
    tokens: int
    part_count: int


def sum_shares(parts: Iterable[PromptPart]) -> tuple[PromptShare, ...]:
    """Sum the included parts of a prompt by component."""
    found: dict[str, PromptShare] = {}
    for part in parts:
        if part.is_included:
            before = found.get(part.component, PromptShare(part.component, 0, 0))
            tokens, part_count = before.tokens + part.tokens, before.part_count + 1
            found[part.component] = PromptShare(part.component, tokens, part_count)
    return tuple(found.values())


def render_token_bars(manifest: Manifest) -> RenderableType:
    """Render the tokens of a prompt by component, and their share of the budget."""
    colours = choose_component_colours(manifest.parts)
    by_component = sum_shares(manifest.parts)
    below = [
        _render_prompt_total(manifest),
        *([render_prefix(manifest.prefix.call, manifest.prefix)] if manifest.prefix else []),
    ]
    return Group(
        _render_stacked_bar(by_component, colours),
        _render_component_lines(by_component, colours),
        *below,
    )


def split_columns(numbers: Iterable[int], columns: int) -> tuple[int, ...]:
    """Split columns by size so that they add up and every positive size gets at least one."""
    sizes = tuple(numbers)
    total = sum(sizes) or 1
    spare = columns - sum(size > 0 for size in sizes)
    widths = [(size > 0) + spare * size // total for size in sizes]
    nearest = sorted(range(len(sizes)), key=lambda place: -(spare * sizes[place] % total))
    for place in nearest[: columns - sum(widths) if any(sizes) else 0]:
        widths[place] += 1
    return tuple(widths)


def _render_stacked_bar(by_component: tuple[PromptShare, ...], colours: Mapping[str, str]) -> Text:
    bar = Text()
    columns = split_columns((share.tokens for share in by_component), PROMPT_BAR_WIDTH)
    for share, width in zip(by_component, columns, strict=True):
        bar.append("█" * width, colours[share.component])
    return bar


def _render_component_lines(
    by_component: tuple[PromptShare, ...], colours: Mapping[str, str]
) -> Table:
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right", "left"):
        table.add_column(justify=justify)
    total = sum(share.tokens for share in by_component) or 1
    for share in by_component:
        table.add_row(
            Text().append("■ ", colours[share.component]).append(share.component),
            f"{share.tokens:,}",
            Text(f"{share.tokens / total:.0%}", MUTED),
            Text(format_count(share.part_count, "part"), MUTED),
        )
    return table


def render_prefix(call: str, prefix: CachePrefix | PrefixAgreement) -> Text:
    """Render how far a prompt begins as an earlier one did, and what ended that."""
    line = Text(f"begins as call {call} did", MUTED)
    line.append(
        f": {format_count(prefix.messages, 'message')}, {format_count(prefix.tokens, 'token')}"
    )
    if prefix.ended_by is None:
        return line.append(" · all of it", GOOD)
    return line.append(" · up to ", MUTED).append(prefix.ended_by, WARNING)


def format_counter(counter: CounterRef) -> str:
    """Return the name of a counter, with the factor by which its counts are corrected."""
    return f"{counter.name} times {counter.factor:g}" if counter.factor > 1 else counter.name


def _render_prompt_total(manifest: Manifest) -> Text:
    counter = format_counter(manifest.counter) + ("" if manifest.counter.exact else ", an estimate")
    line = Text().append(format_count(manifest.tokens, "token"), "bold")
    if manifest.budget:
        line.append(f" of {manifest.budget:,} · ")
        line.append_text(render_budget_share(manifest.tokens / manifest.budget))
    return line.append(f" · counted by {counter}", MUTED)
