"""What-if reports, on a terminal and as one HTML page.

They show the totals, then the sessions with the worst first, or the calls of a single session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from turnlog.services.cli.screens.palette import BAD, GOOD, QUIET, WARY
from turnlog.services.cli.screens.sessions import listing
from turnlog.services.cli.screens.spelling import counted, harmless, money, short
from turnlog.services.gateway.payloads.what_if import (
    AccountView,
    AlteredOftenView,
    AlteredView,
    Begun,
    CallSupposed,
    Ended,
    MisfitView,
    SessionSupposed,
    SessionUntold,
)

SHOWN: Final = 10
"""Sessions listed, or calls of a single session; the JSON has all."""
_COLOURS: Final = {"cut": BAD, "gone": WARY, "uncut": GOOD, "added": GOOD, "changed": WARY}
_WORDS: Final = {"uncut": "no longer cut"}


def what_if_screen(
    begun: Begun,
    sessions: Sequence[SessionSupposed],
    untold: Sequence[SessionUntold],
    ended: Ended,
) -> RenderableType:
    """Render a report; `sessions` must be ordered with the worst first."""
    return Group(*_screen(begun, sessions, untold, ended))


def _screen(
    begun: Begun,
    sessions: Sequence[SessionSupposed],
    untold: Sequence[SessionUntold],
    ended: Ended,
) -> Iterator[RenderableType]:
    yield Text("what if ", "bold").append(change(begun), "bold")
    yield _sums(ended)
    if ended.refused:
        yield Text("\ncalls that could not have been made", BAD)
        yield from (_refused(each.calls, each.code, each.detail) for each in ended.refused)
    if ended.altered:
        yield Text("\nwhat would stand otherwise", QUIET)
        yield _altered_table(ended.altered)
    if len(sessions) == 1:
        yield from _calls(sessions[0])
    elif sessions:
        yield Text("\nsessions, the worst first", QUIET)
        yield _session_table(sessions[:SHOWN])
        if len(sessions) > SHOWN:
            yield Text(f"{len(sessions) - SHOWN:,} more: -o json, or --html FILE", QUIET)
    if begun.behind:
        lacking = counted(begun.behind, "event")
        yield Text(f"the read models lack {lacking}, and perhaps a session", WARY)
    for each in untold:
        yield Text(f"✗ {each.session} ", BAD).append(harmless(each.detail), "default")
    yield Rule(style=QUIET)
    yield Text(begun.exact, QUIET)


def change(begun: Begun) -> str:
    """Format the change that is compared: blueprint, budget and model."""
    blueprint = begun.blueprint
    said = [
        *([f"{blueprint.blueprint} v{blueprint.version} {short(blueprint.digest)}"]
          if blueprint else []),
        *([f"a budget of {begun.budget:,} tokens"] if begun.budget else []),
        *([f"model {begun.model}"] if begun.model else []),
    ]  # fmt: skip
    return harmless(" · ".join(said))


def _sums(found: Ended) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style=QUIET, justify="right")
    grid.add_column()
    told = Text(f"{counted(found.sessions, 'session')}, {counted(found.calls, 'call')}")
    same = f" · {found.same:,} the very same" if found.same else ""
    grid.add_row("recorded", told.append(same, QUIET))
    made = Text(f"{found.again:,} of {found.calls:,}", GOOD if found.again == found.calls else BAD)
    grid.add_row("could be made", made)
    grid.add_row("tokens", _way(found.before.tokens, found.after.tokens).append(_counters(found)))
    grid.add_row("largest", _way(found.before.largest, found.after.largest))
    grid.add_row("cache reuses", _way(found.before.prefix, found.after.prefix, more=GOOD, less=BAD))
    grid.add_row("prompts cost", _cost(found))
    return grid


def _way(before: int, after: int, more: str = WARY, less: str = GOOD) -> Text:
    """Render two figures and the relative change between them."""
    line = Text(f"{before:,} → {after:,}")
    return line if before == after else line.append("  ").append(_share(before, after, more, less))


def _share(before: int, after: int, more: str, less: str) -> Text:
    if before == after:
        return Text("as it was", QUIET)
    share = f"{(after - before) / before:+.0%}" if before else "new"
    return Text(share, more if after > before else less)


def _counters(found: AccountView) -> Text:
    before, after = found.before.counters, found.after.counters
    if before == after or not after:
        return Text()
    told = f"  counted by {', '.join(before)}, then by {', '.join(after)}: not of one measure"
    return Text(told, WARY)


def _cost(found: AccountView) -> Text:
    before, after = found.before, found.after
    line = Text(f"{money(before.micro_dollars)} → {money(after.micro_dollars)}")
    guess = "  at a guess: a model stands in no price table" if _guessed(found) else ""
    return line.append(f"  {_models(found)}", QUIET).append(guess, WARY)


def _guessed(found: AccountView) -> bool:
    return found.before.guessed or found.after.guessed


def _models(found: AccountView) -> str:
    before, after = sorted(found.before.models), sorted(found.after.models)
    return ", ".join(before) if before == after else f"{', '.join(before)} → {', '.join(after)}"


def _refused(calls: int, code: str, detail: str) -> Text:
    return Text(f"  {counted(calls, 'call')} ", BAD).append(
        f"{code}: {harmless(detail)}", "default"
    )


def _altered_table(altered: Iterable[AlteredOftenView]) -> Table:
    table = listing()
    for title in ("layer", "how", "by"):
        table.add_column(title, no_wrap=True)
    for title in ("calls", "pieces"):
        table.add_column(title, justify="right")
    for each in altered:
        how = Text(_WORDS.get(each.how, each.how), _COLOURS[each.how])
        numbers = (f"{each.calls:,}", f"{each.pieces:,}")
        table.add_row(harmless(each.layer), how, harmless(each.rule or ""), *numbers)
    return table


def _session_table(sessions: Iterable[SessionSupposed]) -> Table:
    table = listing()
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
            Text(f"{lost:,}", BAD if lost else QUIET),
            Text(f"{cut:,}", BAD if cut else QUIET),
            _way(each.before.tokens, each.after.tokens),
            _share(each.before.prefix, each.after.prefix, more=GOOD, less=BAD),
        )
    return table


def _calls(session: SessionSupposed) -> Iterator[RenderableType]:
    if not session.worst:
        return
    yield Text(f"\ncalls of {session.session}, the worst first", QUIET)
    for each in session.worst[:SHOWN]:
        yield _call(each)


def _call(each: CallSupposed) -> Text:
    line = Text(f"call {each.call}  ", "bold")
    if each.after is None or each.refused is not None:
        return line.append_text(misfit(each.refused) if each.refused else Text())
    line.append_text(_way(each.before.tokens, each.after.tokens)).append(" tokens")
    line.append("".join(f"\n  {stands_otherwise(one)}" for one in each.altered), QUIET)
    return line


def misfit(refused: MisfitView) -> Text:
    """Render why a call could not have been made, and the layers that are always kept."""
    line = Text(f"{refused.code} ", BAD).append(harmless(refused.detail), "default")
    if refused.over is not None:
        kept = ", ".join(f"{each.layer} {each.tokens:,}" for each in refused.kept)
        line.append(f"\n  {refused.over:,} tokens too many; always kept: {harmless(kept)}", QUIET)
    return line


def stands_otherwise(one: AlteredView) -> str:
    """Format one altered part of a call on one line."""
    what = one.layer
    if one.first is not None:
        what = f"turn {one.first}" if one.first == one.last else f"turns {one.first}-{one.last}"
    if one.segment is not None:
        what = f"{one.layer} segment {one.segment}"
    by = f" by {one.rule}" if one.rule else ""
    return harmless(f"{what} {_WORDS.get(one.how, one.how)}{by}")
