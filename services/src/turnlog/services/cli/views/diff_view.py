"""The differences between two calls on a terminal: a sign, what changed, and why.

Both calls come first with their cost. Then come all changes in the order of the second prompt, each
with its rule and its events; then the tokens by component and the length of the common prefix.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from turnlog.events.model.manifest import PromptPart, SegmentSource
from turnlog.projections.audit.diff.call_diff import (
    CallDiff,
    CallFacts,
    ComponentShare,
    PrefixAgreement,
    PromptChange,
)
from turnlog.projections.audit.diff.diff_causes import DiffCause
from turnlog.projections.audit.diff.diff_reasons import DiffReason
from turnlog.projections.audit.diff.prompt_comparison import ChangeKind
from turnlog.projections.audit.diff.retrieval_causes import EntryVotes
from turnlog.services.cli.views.prompt_view import render_source
from turnlog.services.cli.views.provenance_view import (
    format_turn_run,
    render_cause,
    render_votes,
)
from turnlog.services.cli.views.text_format import format_count, format_money, format_one_line
from turnlog.services.cli.views.theme import BAD, GOOD, MUTED, WARNING
from turnlog.services.cli.views.token_view import format_counter, render_prefix

_MINUS: Final = "\N{MINUS SIGN}"

_SIGNS: Final[dict[ChangeKind, tuple[str, str]]] = {
    "added": ("+", GOOD),
    "removed": (_MINUS, BAD),
    "changed": ("~", WARNING),
    "shrunk": ("▾", WARNING),
    "grown": ("▴", WARNING),
    "moved": ("⇄", WARNING),
}

REASON_LABELS: Final[dict[DiffReason, str]] = {
    "said": "the turn's message",
    "answered": "answered",
    "failed": "it failed",
    "cancelled": "cancelled",
    "excluded": "excluded",
    "restored": "restored",
    "redacted": "a reply or a text was redacted",
    "told": "already described",
    "choice": "a choice",
    "phase": "the phase",
    "attribute": "an attribute",
    "resolved": "the resolved reference",
    "retrieved": "what was retrieved",
    "voted": "the votes on it",
    "called": "a tool call",
    "returned": "a tool result",
    "pinned": "what was pinned",
    "override": "the user's own prompts",
    "asked": "tools asked for in full",
    "library": "the library",
    "variant": "the chosen variant",
    "blueprint": "the blueprint",
    "budget": "the budget",
    "room": "space taken by other parts",
    "counted": "the provider's count of tokens",
    "refused": "the provider refused a longer prompt",
    "cut": "an earlier call's cut lasts",
    "limit": "later turns",
    "time": "expired by the clock of",
    "kind": "the kind of call",
    "profile": "the profile",
    "model": "the model",
    "assembler": "the assembler",
    "summarised": "summed up",
    "undone": "a summary was undone",
    "purged": "the memory was purged",
    "unknown": "no recorded cause",
}
"""The label of each reason; the events follow it."""

_MAX_NAMED_EVENTS: Final = 4
"""Up to this many events are named one by one; of more, the first and the last."""


def render_diff(found: CallDiff) -> RenderableType:
    """Render all differences between two calls."""
    return Group(*_render_headings(found), Text(), *_render_body(found))


def _render_headings(found: CallDiff) -> Iterator[RenderableType]:
    before, after = found.before, found.after
    title = Text(f"from call {before.call} to call {after.call}", "bold")
    sessions = dict.fromkeys((before.session, after.session))
    yield title.append(f"  {' → '.join(sessions)}", MUTED)
    yield _render_call_facts(_MINUS, before)
    yield _render_call_facts("+", after)
    yield _render_summary(found)


def _render_call_facts(sign: str, facts: CallFacts) -> Text:
    line = Text(f"{sign}  ", MUTED).append(facts.call, "bold").append("  ")
    allowed = f" of {facts.budget:,}" if facts.budget else ""
    tokens = format_count(facts.tokens, "token") + allowed
    cost = format_money(facts.micro_dollars, guessed=facts.guessed)
    figures = (facts.kind, format_one_line(facts.model), tokens, cost and f"cost {cost}")
    line.append(" · ".join(filter(None, figures)), "default")
    return line.append("\n   ").append_text(render_cause(facts.fixed))


def _render_summary(found: CallDiff) -> Text:
    line = Text("=  ", MUTED)
    if found.same:
        return line.append("identical requests", f"bold {GOOD}")
    line.append(format_difference(found.tokens, "token"), "bold")
    if found.micro_dollars is not None:
        cost = _format_money_difference(found.micro_dollars, guessed=found.guessed)
        line.append(f" · {cost}", "default")
    kinds = {what: sum(change.what == what for change in found.changes) for what in _SIGNS}
    changes_text = ", ".join(f"{number} {what}" for what, number in kinds.items() if number)
    return line.append(f" · {changes_text or 'nothing but settings'}", MUTED)


def _format_money_difference(micro_dollars: int, *, guessed: bool) -> str:
    if not micro_dollars:
        return "at the same cost"
    amount = format_money(abs(micro_dollars), guessed=guessed)
    return f"{'+' if micro_dollars > 0 else _MINUS}{amount}"


def format_difference(number: int, thing: str) -> str:
    """Format a signed number of things."""
    sign = "+" if number > 0 else _MINUS if number else "\N{PLUS-MINUS SIGN}"
    return f"{sign}{format_count(abs(number), thing)}"


def _render_body(found: CallDiff) -> Iterator[RenderableType]:
    if found.changes:
        yield _render_changes(found.changes)
        yield Text()
    yield from _render_settings(found.before, found.after)
    yield _render_components(found.components)
    yield _render_prefix(found.before, found.prefix, found.changes)


def _render_changes(changes: tuple[PromptChange, ...]) -> Group:
    width = max(len(change.layer) for change in changes)
    return Group(*(each for change in changes for each in _render_change(change, width)))


def _render_change(change: PromptChange, width: int) -> Iterator[RenderableType]:
    sign, colour = _SIGNS[change.what]
    head = Table.grid(padding=(0, 2), expand=True)
    head.add_column(no_wrap=True)
    head.add_column(no_wrap=True, width=width)
    head.add_column(overflow="fold", ratio=1)
    head.add_column(justify="right", no_wrap=True)
    layer = Text(change.layer, f"bold {colour}")
    head.add_row(
        Text(sign, f"bold {colour}"), layer, _describe_change(change), _render_size(change)
    )
    yield head
    for reason in change.because:
        yield Padding(_render_reason(reason), (0, 0, 0, 3))
        for each in reason.votes:
            yield Padding(_render_entry_votes(each), (0, 0, 0, 5))


def _describe_change(change: PromptChange) -> Text:
    parts = [Text(change.what)]
    if change.first is not None and change.last is not None:
        parts.append(Text(format_turn_run(change.first, change.last)))
    elif place := _render_sources(change.before, change.after):
        parts.append(place)
    if change.rule:
        parts.append(Text(f"{_describe_rule(change)} ", MUTED).append(change.rule, WARNING))
    return Text(" · ", MUTED).join(parts)


def _describe_rule(change: PromptChange) -> str:
    """Return how a rule relates to the change: it applies now, or only applied before."""
    holds = change.after is not None and change.after.rule == change.rule
    return "by" if holds or change.what != "added" else "before:"


def _render_sources(before: PromptPart | None, after: PromptPart | None) -> Text:
    was, now = (part.source if part else None for part in (before, after))
    if isinstance(was, SegmentSource) and isinstance(now, SegmentSource) and was != now:
        return Text(f"segment {now.segment}").append(
            f"  version {was.version}{was.variant} → {now.version}{now.variant}", MUTED
        )
    return render_source(now or was) if now or was else Text()


def _render_size(change: PromptChange) -> Text:
    if change.tokens is not None:
        return Text(format_difference(change.tokens, "token"), MUTED)
    return Text(format_difference(change.characters, "character"), MUTED)


def _render_reason(reason: DiffCause) -> Text:
    line = Text("└ ", MUTED).append(REASON_LABELS[reason.what], "default")
    if not reason.by:
        return line
    if len(reason.by) > _MAX_NAMED_EVENTS:
        first, last = reason.by[0].sequence, reason.by[-1].sequence
        return line.append(f": {len(reason.by)} events, {first} to {last}", MUTED)
    named = Text(",\n  ").join(render_cause(each) for each in reason.by)
    return line.append(": ", MUTED).append_text(named)


def _render_entry_votes(voted: EntryVotes) -> Text:
    """Render the votes on an entry, with their sum at the time of the retrieval."""
    line = Text(f"{voted.collection}/{voted.entry} ").append(f"{voted.feedback:+}", WARNING)
    line.append(f" in event {voted.sequence}", MUTED)
    return Text("\n  ").join((line, *render_votes(voted.votes, voted.more_votes)))


def _render_settings(before: CallFacts, after: CallFacts) -> Iterator[Text]:
    for name, was, now in (
        ("model", before.model, after.model),
        ("budget", before.budget, after.budget),
        ("counter", format_counter(before.counter), format_counter(after.counter)),
        ("parameters", before.parameters, after.parameters),
    ):
        if was != now:
            yield Text(f"{name} ", MUTED).append(format_one_line(f"{was} → {now}"), WARNING)


def _render_components(components: tuple[ComponentShare, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=MUTED, pad_edge=False)
    table.add_column("tokens by component", no_wrap=True)
    for name in ("before", "after", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for share in components:
        more = share.after - share.before
        colour = GOOD if more > 0 else BAD
        change = Text(f"{'+' if more > 0 else _MINUS}{abs(more):,}", colour) if more else Text("")
        table.add_row(share.component, f"{share.before:,}", f"{share.after:,}", change)
    return table


def _render_prefix(
    before: CallFacts, prefix: PrefixAgreement, changes: tuple[PromptChange, ...]
) -> Text:
    line = Text("\n").append_text(render_prefix(before.call, prefix))
    if prefix.change is None:
        return line
    what = changes[prefix.change]
    reasons = ", ".join(REASON_LABELS[each.what] for each in what.because)
    return line.append(f" · {what.what}: {reasons}", MUTED)
