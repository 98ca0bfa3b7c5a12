"""A what-if report on the terminal.

It shows the totals, then the sessions with the worst first, or the calls of a single session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from pydantic import JsonValue
from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from turnlog.projections.audit.what_if.reassembled_calls import PromptAlteration
from turnlog.projections.audit.what_if.what_if_report import AlterationCount
from turnlog.services.api.what_if_payloads import (
    CallRefusalView,
    PromptTotalsView,
    WhatIfCall,
    WhatIfFailedSession,
    WhatIfSession,
    WhatIfStart,
    WhatIfSummary,
    WhatIfTotalsView,
)
from turnlog.services.cli.views.text_format import (
    escape_controls,
    format_count,
    format_digest,
    format_money,
)
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING, create_listing

MAX_SHOWN: Final = 10
"""Sessions listed, or calls of a single session; the JSON has all."""

_CHANGE_COLOURS: Final = {
    "cut": BAD,
    "gone": WARNING,
    "uncut": GOOD,
    "added": GOOD,
    "changed": WARNING,
}

_CHANGE_WORDS: Final = {"uncut": "no longer cut"}


def render_what_if(
    begun: WhatIfStart,
    sessions: Sequence[WhatIfSession],
    failed: Sequence[WhatIfFailedSession],
    ended: WhatIfSummary,
) -> RenderableType:
    """Render a report; `sessions` must be ordered with the worst first."""
    return Group(*_render_sections(begun, sessions, failed, ended))


def _render_sections(
    begun: WhatIfStart,
    sessions: Sequence[WhatIfSession],
    failed: Sequence[WhatIfFailedSession],
    ended: WhatIfSummary,
) -> Iterator[RenderableType]:
    yield Text("what if ", "bold").append(format_change(begun), "bold")
    yield _render_totals(ended)
    if ended.refused:
        yield Text("\ncalls that would have failed", BAD)
        yield from (_render_refusal(each.calls, each.code, each.detail) for each in ended.refused)
    if ended.altered:
        yield Text("\nwhat would change", MUTED)
        yield _render_altered(ended.altered)
    if len(sessions) == 1:
        yield from _render_calls(sessions[0])
    elif sessions:
        yield Text("\nsessions, the worst first", MUTED)
        yield _render_session_rows(sessions[:MAX_SHOWN])
        if len(sessions) > MAX_SHOWN:
            yield Text(f"{len(sessions) - MAX_SHOWN:,} more: -o json, or --html FILE", MUTED)
    if begun.behind:
        lacking = format_count(begun.behind, "event")
        yield Text(f"the read models lack {lacking}, and perhaps a session", WARNING)
    for each in failed:
        yield Text(f"✗ {each.session} ", BAD).append(escape_controls(each.detail), "default")
    yield Rule(style=MUTED)
    yield Text(begun.exact, MUTED)


def format_change(begun: WhatIfStart) -> str:
    """Format the change that is compared: blueprint, budget, model and ladder."""
    blueprint = begun.blueprint
    parts = [
        *([f"{blueprint.blueprint} v{blueprint.version} {format_digest(blueprint.digest)}"]
          if blueprint else []),
        *([f"a budget of {begun.budget:,} tokens"] if begun.budget else []),
        *([f"model {begun.model}"] if begun.model else []),
        *format_ladder_change(begun.ladder or {}),
    ]  # fmt: skip
    return escape_controls(" · ".join(parts))


def format_ladder_change(ladder: Mapping[str, Mapping[str, JsonValue]]) -> Iterator[str]:
    """Yield the settings of a ladder that are changed: `drop_oldest_pairs to 80%`."""
    for step, settings in ladder.items():
        for name, value in settings.items():
            yield f"{step} without {name}" if value is None else f"{step} {name} {value}"


def _render_totals(found: WhatIfSummary) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=MUTED, justify="right")
    grid.add_column()
    recorded = Text(
        f"{format_count(found.sessions, 'session')}, {format_count(found.calls, 'call')}"
    )
    same = f" · {found.same:,} identical" if found.same else ""
    grid.add_row("recorded", recorded.append(same, MUTED))
    made = Text(f"{found.again:,} of {found.calls:,}", GOOD if found.again == found.calls else BAD)
    grid.add_row("could be made", made)
    grid.add_row(
        "tokens",
        _render_figures(found.before.tokens, found.after.tokens).append(_render_counters(found)),
    )
    grid.add_row("largest", _render_figures(found.before.largest, found.after.largest))
    grid.add_row(
        "cache reuses",
        _render_figures(found.before.prefix, found.after.prefix, more=GOOD, less=BAD),
    )
    grid.add_row("prompts cost", _render_cost(found))
    if found.before.cached_tokens or found.after.cached_tokens:
        grid.add_row("with caches", _render_cached_cost(found))
    return grid


def _render_figures(before: int, after: int, more: str = WARNING, less: str = GOOD) -> Text:
    line = Text(f"{before:,} → {after:,}")
    return (
        line
        if before == after
        else line.append("  ").append(_render_share(before, after, more, less))
    )


def _render_share(before: int, after: int, more: str, less: str) -> Text:
    if before == after:
        return Text("as it was", MUTED)
    share = f"{(after - before) / before:+.0%}" if before else "new"
    return Text(share, more if after > before else less)


def _render_counters(found: WhatIfTotalsView) -> Text:
    before, after = found.before.counters, found.after.counters
    if before == after or not after:
        return Text()
    note = f"  counted by {', '.join(before)}, then by {', '.join(after)}: not of one measure"
    return Text(note, WARNING)


def _render_cost(found: WhatIfTotalsView) -> Text:
    before, after = found.before, found.after
    line = Text(f"{format_prompts_cost(before)} → {format_prompts_cost(after)}")
    return line.append(f"  {_format_models(found)}", MUTED)


def _render_cached_cost(found: WhatIfTotalsView) -> Text:
    before, after = found.before, found.after
    line = Text(f"{format_cached_cost(before)} → {format_cached_cost(after)}")
    share = _render_share(before.cached_micro_dollars, after.cached_micro_dollars, WARNING, GOOD)
    return line.append("  ").append(share).append("  if nothing expires", MUTED)


def format_cached_cost(side: PromptTotalsView) -> str:
    """Format what the prompts of one side cost where the provider reads from its cache."""
    return format_money(side.cached_micro_dollars, guessed=side.guessed)


def format_prompts_cost(side: PromptTotalsView) -> str:
    """Format what the prompts of one side cost."""
    return format_money(side.micro_dollars, guessed=side.guessed)


def _format_models(found: WhatIfTotalsView) -> str:
    before, after = sorted(found.before.models), sorted(found.after.models)
    return ", ".join(before) if before == after else f"{', '.join(before)} → {', '.join(after)}"


def _render_refusal(calls: int, code: str, detail: str) -> Text:
    return Text(f"  {format_count(calls, 'call')} ", BAD).append(
        f"{code}: {escape_controls(detail)}", "default"
    )


def _render_altered(altered: Iterable[AlterationCount]) -> Table:
    table = create_listing()
    for title in ("layer", "how", "by"):
        table.add_column(title, no_wrap=True)
    for title in ("calls", "pieces"):
        table.add_column(title, justify="right")
    for each in altered:
        how = Text(_CHANGE_WORDS.get(each.how, each.how), _CHANGE_COLOURS[each.how])
        numbers = (f"{each.calls:,}", f"{each.pieces:,}")
        table.add_row(escape_controls(each.layer), how, escape_controls(each.rule or ""), *numbers)
    return table


def _render_session_rows(sessions: Iterable[WhatIfSession]) -> Table:
    table = create_listing()
    table.add_column("session", no_wrap=True)
    for title in ("calls", "not made", "cut"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("tokens", no_wrap=True)
    table.add_column("cache", no_wrap=True)
    for each in sessions:
        lost = each.calls - each.again
        cut = sum(one.pieces for one in each.altered if one.how == "cut")
        table.add_row(
            each.session,
            f"{each.calls:,}",
            Text(f"{lost:,}", BAD if lost else MUTED),
            Text(f"{cut:,}", BAD if cut else MUTED),
            _render_figures(each.before.tokens, each.after.tokens),
            _render_share(each.before.prefix, each.after.prefix, more=GOOD, less=BAD),
        )
    return table


def _render_calls(session: WhatIfSession) -> Iterator[RenderableType]:
    if not session.worst:
        return
    yield Text(f"\ncalls of {session.session}, the worst first", MUTED)
    for each in session.worst[:MAX_SHOWN]:
        yield _render_call(each)


def _render_call(each: WhatIfCall) -> Text:
    line = Text(f"call {each.call}  ", "bold")
    if each.after is None or each.refused is not None:
        return line.append_text(render_misfit(each.refused) if each.refused else Text())
    line.append_text(_render_figures(each.before.tokens, each.after.tokens)).append(" tokens")
    line.append("".join(f"\n  {format_alteration(one)}" for one in each.altered), MUTED)
    return line


def render_misfit(refused: CallRefusalView) -> Text:
    """Render why a call could not have been made, and the layers that are always kept."""
    line = Text(f"{refused.code} ", BAD).append(escape_controls(refused.detail), "default")
    if refused.over is not None:
        kept = ", ".join(f"{each.layer} {each.tokens:,}" for each in refused.kept)
        line.append(
            f"\n  {refused.over:,} tokens too many; always kept: {escape_controls(kept)}", MUTED
        )
    return line


def format_alteration(one: PromptAlteration) -> str:
    """Format one altered part of a call on one line."""
    what = one.layer
    if one.first is not None:
        what = f"turn {one.first}" if one.first == one.last else f"turns {one.first}-{one.last}"
    if one.segment is not None:
        what = f"{one.layer} segment {one.segment}"
    by = f" by {one.rule}" if one.rule else ""
    return escape_controls(f"{what} {_CHANGE_WORDS.get(one.how, one.how)}{by}")
