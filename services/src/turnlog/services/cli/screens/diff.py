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

from turnlog.events.manifest import FromSegment, Part
from turnlog.projections.audit.comparing import What
from turnlog.projections.audit.diff import Agreement, CallFacts, Change, Diff, Share
from turnlog.projections.audit.reasons import Because, Reason
from turnlog.services.cli.screens.origins import caused, run
from turnlog.services.cli.screens.palette import BAD, GOOD, QUIET, WARY
from turnlog.services.cli.screens.prompt import source
from turnlog.services.cli.screens.spelling import counted, money, one_line

_MINUS: Final = "\N{MINUS SIGN}"
_SIGNS: Final[dict[What, tuple[str, str]]] = {
    "added": ("+", GOOD),
    "removed": (_MINUS, BAD),
    "changed": ("~", WARY),
    "shrunk": ("▾", WARY),
    "grown": ("▴", WARY),
    "moved": ("⇄", WARY),
}
WORDS: Final[dict[Reason, str]] = {
    "said": "the turn that asks",
    "answered": "answered",
    "failed": "it failed",
    "cancelled": "given up",
    "excluded": "excluded",
    "restored": "restored",
    "redacted": "a reply was withheld",
    "told": "told once, by then",
    "choice": "a choice",
    "phase": "the phase",
    "attribute": "an attribute",
    "resolved": "what was resolved",
    "pinned": "the prompt file",
    "library": "the library",
    "variant": "the variant it drew",
    "blueprint": "the blueprint",
    "budget": "the budget",
    "room": "what took the room",
    "limit": "later turns",
    "time": "too old by the clock of",
    "kind": "the kind of call",
    "profile": "the profile",
    "model": "the model",
    "assembler": "the assembler",
    "summarised": "summed up",
    "undone": "a summary was undone",
    "purged": "the memory was purged",
    "unknown": "no event says why",
}
"""The label of each reason; the events follow it."""
_MOST: Final = 4
"""Up to this many events are named one by one; of more, the first and the last."""


def diff_screen(found: Diff) -> RenderableType:
    """Render all differences between two calls."""
    return Group(*_heads(found), Text(), *_body(found))


def _heads(found: Diff) -> Iterator[RenderableType]:
    before, after = found.before, found.after
    title = Text(f"from call {before.call} to call {after.call}", "bold")
    sessions = dict.fromkeys((before.session, after.session))
    yield title.append(f"  {' → '.join(sessions)}", QUIET)
    yield _facts(_MINUS, before)
    yield _facts("+", after)
    yield _sum(found)


def _facts(sign: str, facts: CallFacts) -> Text:
    line = Text(f"{sign}  ", QUIET).append(facts.call, "bold").append("  ")
    allowed = f" of {facts.budget:,}" if facts.budget else ""
    tokens = counted(facts.tokens, "token") + allowed
    cost = f"cost {money(facts.micro_dollars)}"
    line.append(" · ".join((facts.kind, one_line(facts.model), tokens, cost)), "default")
    return line.append("\n   ").append_text(caused(facts.fixed))


def _sum(found: Diff) -> Text:
    line = Text("=  ", QUIET)
    if found.same:
        return line.append("the very same request", f"bold {GOOD}")
    line.append(signed(found.tokens, "token"), "bold")
    if found.micro_dollars is not None:
        line.append(f" · {_signed_money(found.micro_dollars)}", "default")
    kinds = {what: sum(change.what == what for change in found.changes) for what in _SIGNS}
    told = ", ".join(f"{number} {what}" for what, number in kinds.items() if number)
    return line.append(f" · {told or 'nothing but settings'}", QUIET)


def _signed_money(micro_dollars: int) -> str:
    if not micro_dollars:
        return "at the same cost"
    return f"{'+' if micro_dollars > 0 else _MINUS}{money(abs(micro_dollars))}"


def signed(number: int, thing: str) -> str:
    """Format a signed number of things."""
    sign = "+" if number > 0 else _MINUS if number else "\N{PLUS-MINUS SIGN}"
    return f"{sign}{counted(abs(number), thing)}"


def _body(found: Diff) -> Iterator[RenderableType]:
    if found.changes:
        yield _changes(found.changes)
        yield Text()
    yield from _settings(found.before, found.after)
    yield _components(found.components)
    yield _prefix(found.before, found.prefix, found.changes)


def _changes(changes: tuple[Change, ...]) -> Group:
    width = max(len(change.layer) for change in changes)
    return Group(*(each for change in changes for each in _change(change, width)))


def _change(change: Change, width: int) -> Iterator[RenderableType]:
    sign, colour = _SIGNS[change.what]
    head = Table.grid(padding=(0, 2), expand=True)
    head.add_column(no_wrap=True)
    head.add_column(no_wrap=True, width=width)
    head.add_column(overflow="fold", ratio=1)
    head.add_column(justify="right", no_wrap=True)
    layer = Text(change.layer, f"bold {colour}")
    head.add_row(Text(sign, f"bold {colour}"), layer, _thing(change), _size(change))
    yield head
    for reason in change.because:
        yield Padding(_because(reason), (0, 0, 0, 3))


def _thing(change: Change) -> Text:
    parts = [Text(change.what)]
    if change.first is not None and change.last is not None:
        parts.append(Text(run(change.first, change.last)))
    elif place := _place(change.before, change.after):
        parts.append(place)
    if change.rule:
        parts.append(Text(f"{_ruled(change)} ", QUIET).append(change.rule, WARY))
    return Text(" · ", QUIET).join(parts)


def _ruled(change: Change) -> str:
    """Return how a rule relates to the change: it applies now, or only applied before."""
    holds = change.after is not None and change.after.rule == change.rule
    return "by" if holds or change.what != "added" else "before:"


def _place(before: Part | None, after: Part | None) -> Text:
    was, now = (part.source if part else None for part in (before, after))
    if isinstance(was, FromSegment) and isinstance(now, FromSegment) and was != now:
        return Text(f"segment {now.segment}").append(
            f"  version {was.version}{was.variant} → {now.version}{now.variant}", QUIET
        )
    return source(now or was) if now or was else Text()


def _size(change: Change) -> Text:
    if change.tokens is not None:
        return Text(signed(change.tokens, "token"), QUIET)
    return Text(signed(change.characters, "character"), QUIET)


def _because(reason: Because) -> Text:
    line = Text("└ ", QUIET).append(WORDS[reason.what], "default")
    if not reason.by:
        return line
    if len(reason.by) > _MOST:
        first, last = reason.by[0].sequence, reason.by[-1].sequence
        return line.append(f": {len(reason.by)} events, {first} to {last}", QUIET)
    named = Text(",\n  ").join(caused(each) for each in reason.by)
    return line.append(": ", QUIET).append_text(named)


def _settings(before: CallFacts, after: CallFacts) -> Iterator[Text]:
    for name, was, now in (
        ("model", before.model, after.model),
        ("budget", before.budget, after.budget),
        ("counter", before.counter.name, after.counter.name),
        ("parameters", before.parameters, after.parameters),
    ):
        if was != now:
            yield Text(f"{name} ", QUIET).append(one_line(f"{was} → {now}"), WARY)


def _components(components: tuple[Share, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=QUIET, pad_edge=False)
    table.add_column("tokens by component", no_wrap=True)
    for name in ("before", "after", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for share in components:
        more = share.after - share.before
        colour = GOOD if more > 0 else BAD
        change = Text(f"{'+' if more > 0 else _MINUS}{abs(more):,}", colour) if more else Text("")
        table.add_row(share.component, f"{share.before:,}", f"{share.after:,}", change)
    return table


def _prefix(before: CallFacts, prefix: Agreement, changes: tuple[Change, ...]) -> Text:
    line = Text(f"\nbegins as call {before.call} did", QUIET)
    line.append(f": {counted(prefix.messages, 'message')}, {counted(prefix.tokens, 'token')}")
    if prefix.ended_by is None:
        return line.append(" · all of it", GOOD)
    line.append(" · up to ", QUIET).append(prefix.ended_by, WARY)
    if prefix.change is None:
        return line
    what = changes[prefix.change]
    why = ", ".join(WORDS[each.what] for each in what.because)
    return line.append(f" · {what.what}: {why}", QUIET)
