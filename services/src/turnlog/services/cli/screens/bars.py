"""Token counts by component: the bars of one prompt, and the growth of a session or of all.

All bars of one growth view have the same scale, so that they can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from turnlog.events.manifest import Manifest, PromptPart, CachePrefix
from turnlog.services.cli.screens.palette import BAD, GOOD, MUTED, WARNING, choose_component_colours
from turnlog.services.cli.screens.spelling import format_count

PROMPT_BAR_WIDTH = 60
"""Columns of the bar of one prompt."""
_CROWDED, _TIGHT = 0.9, 0.7


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
            tokens, held = before.tokens + part.tokens, before.part_count + 1
            found[part.component] = PromptShare(part.component, tokens, held)
    return tuple(found.values())


def render_token_bars(manifest: Manifest) -> RenderableType:
    """Render the tokens of a prompt by component, and their share of the budget."""
    colours = choose_component_colours(manifest.parts)
    by_component = sum_shares(manifest.parts)
    below = [_render_prompt_total(manifest), *([_render_prefix(manifest.prefix)] if manifest.prefix else [])]
    return Group(_render_stacked_bar(by_component, colours), _render_component_lines(by_component, colours), *below)


def split_columns(numbers: Iterable[int], columns: int) -> tuple[int, ...]:
    """Split columns by size so that they add up and every positive size gets at least one."""
    sizes = tuple(numbers)
    whole = sum(sizes) or 1
    spare = columns - sum(size > 0 for size in sizes)
    given = [(size > 0) + spare * size // whole for size in sizes]
    nearest = sorted(range(len(sizes)), key=lambda place: -(spare * sizes[place] % whole))
    for place in nearest[: columns - sum(given) if any(sizes) else 0]:
        given[place] += 1
    return tuple(given)


def _render_stacked_bar(by_component: tuple[PromptShare, ...], colours: Mapping[str, str]) -> Text:
    bar = Text()
    columns = split_columns((share.tokens for share in by_component), PROMPT_BAR_WIDTH)
    for share, width in zip(by_component, columns, strict=True):
        bar.append("█" * width, colours[share.component])
    return bar


def _render_component_lines(by_component: tuple[PromptShare, ...], colours: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right", "left"):
        table.add_column(justify=justify)
    whole = sum(share.tokens for share in by_component) or 1
    for share in by_component:
        table.add_row(
            Text().append("■ ", colours[share.component]).append(share.component),
            f"{share.tokens:,}",
            Text(f"{share.tokens / whole:.0%}", MUTED),
            Text(format_count(share.part_count, "part"), MUTED),
        )
    return table


def _render_prefix(prefix: CachePrefix) -> Text:
    line = Text(f"begins as call {prefix.call} did", MUTED)
    line.append(f": {format_count(prefix.messages, 'message')}, {format_count(prefix.tokens, 'token')}")
    if prefix.ended_by is None:
        return line.append(" · all of it", GOOD)
    return line.append(" · up to ", MUTED).append(prefix.ended_by, WARNING)


def _render_prompt_total(manifest: Manifest) -> Text:
    counter = manifest.counter.name + ("" if manifest.counter.exact else ", an estimate")
    line = Text().append(format_count(manifest.tokens, "token"), "bold")
    if manifest.budget:
        share = manifest.tokens / manifest.budget
        colour = BAD if share > _CROWDED else WARNING if share > _TIGHT else GOOD
        line.append(f" of {manifest.budget:,} · ").append(f"{share:.0%}", colour)
    return line.append(f" · counted by {counter}", MUTED)
