from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from turnlog.events.errors import Corrupt
from turnlog.projections.blueprint.budget import Budget, widest
from turnlog.projections.blueprint.schema import History
from turnlog.projections.session.state import MOST_RECENT, Run, Said, SessionState, TurnRef
from turnlog.projections.session.summaries import Summary
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.memory import Recall, forgotten, messages_in
from turnlog.projections.window.skipping import enough, skipped
from turnlog.projections.window.spoken import Exchange, exchange, worked_out
from turnlog.projections.window.visibility import OUT_OF_SIGHT, Sight

OUT_OF_REACH: Final = "out of reach"
"""The rule of turns that are older than any view looks."""
PURGED: Final = "purged"
"""The rule of turns from before the memory was purged."""
SUMMARISED: Final = "summarised"
"""The rule of turns that a summary replaces."""
UNSELECTED: Final = "not selected"
"""The rule of turns that a call is not asked to summarise."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Turns that are not in a view, all for the same reason."""

    first: int
    last: int
    rule: str
    saved: int = 0
    """Tokens that they would take, where another text says the same."""


def chosen(
    view: History,
    state: SessionState,
    sight: Sight,
    recall: Recall | None = None,
    summary: Summary | None = None,
) -> tuple[tuple[TurnRef, ...], tuple[LeftOut, ...]]:
    """Split the settled turns into those a view includes, oldest first, and the excluded ones.

    `summary` replaces some of the turns.
    """
    far = 0 if view.all else max(0, len(state.turns) - MOST_RECENT)
    recent, veils = state.turns[far:], _veils(view, state, summary)
    usable = [ref for ref in recent if ref.characters]
    if sight.phases is not None:
        usable = [ref for ref in usable if sight.holds(ref.phase)]
    if veils:
        usable = [ref for ref in usable if not _veiled(ref.turn, veils)]
    if unwanted := skipped(view, recent, sight):
        usable = [ref for ref in usable if ref.turn not in unwanted]
    over = 0 if view.max_turns is None else max(0, len(usable) - view.max_turns)
    rules = {ref.turn: "max_turns" for ref in usable[:over]}
    rules |= forgotten(recall, usable[over:]) if recall else {}
    if len(usable) < len(recent):
        rules |= unwanted
        rules |= {ref.turn: rule for ref in recent if (rule := _rule(ref, sight, veils))}
    out = [gone for run in state.earlier for gone in _far(run.first, run.last, run, sight, veils)]
    for ref in state.turns[:far]:
        out += _far(ref.turn, ref.turn, ref, sight, veils)
    out += [LeftOut(turn, turn, rule) for turn, rule in rules.items()]
    return tuple([ref for ref in usable if ref.turn not in rules]), merged(out)


def _veils(view: History, state: SessionState, summary: Summary | None) -> tuple[LeftOut, ...]:
    """Return the ranges that are hidden whatever the turns' status; the first match wins."""
    veils = [LeftOut(1, state.purged, PURGED)] if state.purged else []
    if summary is not None:
        veils += [LeftOut(each.first, each.last, SUMMARISED) for each in summary.turns]
    if view.of == "selected":
        veils += _unselected(state)
    return tuple(veils)


def _unselected(state: SessionState) -> Iterator[LeftOut]:
    """Yield the ranges of turns that are not selected for a summary."""
    summing = state.open.summing if state.open else None
    behind = 1
    for each in summing.turns if summing else ():
        if each.first > behind:
            yield LeftOut(behind, each.first - 1, UNSELECTED)
        behind = each.last + 1
    if behind <= state.submitted:
        yield LeftOut(behind, state.submitted, UNSELECTED)


def _veiled(turn: int, veils: tuple[LeftOut, ...]) -> str | None:
    return next((veil.rule for veil in veils if veil.first <= turn <= veil.last), None)


def _far(
    first: int, last: int, turns: TurnRef | Run, sight: Sight, veils: tuple[LeftOut, ...]
) -> Iterator[LeftOut]:
    """Yield why turns beyond the view are excluded, split where the reason changes."""
    if not sight.holds(turns.phase):
        yield LeftOut(first, last, OUT_OF_SIGHT)
        return
    cuts = {place for veil in veils for place in (veil.first, veil.last + 1)}
    begins = [first, *sorted(place for place in cuts if first < place <= last)]
    for begin, end in pairwise((*begins, last + 1)):
        yield LeftOut(begin, end - 1, _veiled(begin, veils) or OUT_OF_REACH)


def _rule(turns: TurnRef | Run, sight: Sight, veils: tuple[LeftOut, ...] = ()) -> str | None:
    if not sight.holds(turns.phase):
        return OUT_OF_SIGHT
    if isinstance(turns, TurnRef) and (veil := _veiled(turns.turn, veils)):
        return veil
    if turns.excluded:
        return "excluded"
    if turns.status != "completed":
        return turns.status
    silent = isinstance(turns, TurnRef) and not messages_in(turns)
    return "nothing was said" if silent else None


def merged(out: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """Merge adjacent ranges that are excluded for the same reason."""
    runs: list[LeftOut] = []
    for run in sorted(out, key=lambda run: run.first):
        if runs and runs[-1].rule == run.rule and runs[-1].last + 1 == run.first:
            saved = runs[-1].saved + run.saved
            runs[-1] = LeftOut(runs[-1].first, run.last, run.rule, saved)
        else:
            runs.append(run)
    return tuple(runs)


def reaches_further(
    view: History,
    state: SessionState,
    sight: Sight,
    budget: Budget | None,
    recall: Recall | None = None,
    tokens: int = 0,
    summary: Summary | None = None,
) -> bool:
    """Return whether a view could include turns that the state keeps only as runs.

    `tokens` is the limit of the budget.
    """
    veils = _veils(view, state, summary)
    runs = [run for run in state.earlier if _rule(run, sight) is None]
    if not any(_bare(run, sight, veils) for run in runs):
        return False
    if view.all or view.of == "selected":
        return True
    sized = [(ref, ref.characters) for ref in state.turns if sight.holds(ref.phase)]
    usable = [ref for ref, characters in sized if characters]
    if recall and (recall.silent or forgotten(recall, usable)):
        return False
    if enough(view, state.turns, sight):
        return False
    most = MOST_RECENT if view.max_turns is None else view.max_turns
    if len(state.turns) >= MOST_RECENT or len(usable) >= most:
        return False
    if budget is None:
        return True
    held = sum([characters for _, characters in sized])
    return held < tokens * widest(budget.counter)


def _bare(run: Run, sight: Sight, veils: tuple[LeftOut, ...]) -> bool:
    """Return whether some turns of a run would be included if they were within reach."""
    return any(gone.rule == OUT_OF_REACH for gone in _far(run.first, run.last, run, sight, veils))


def said_in(turns: Iterable[TurnRef], *, work: bool = False) -> Iterator[Said]:
    """Yield the text references of these turns, in order."""
    for ref in turns:
        for said in (ref.text, ref.reply, ref.work) if work else (ref.text, ref.reply):
            if said and said.characters:
                yield said


def exchanges_of(
    turns: Iterable[TurnRef], texts: Mapping[Said, str], counting: Counting, *, work: bool = False
) -> Iterator[Exchange]:
    """Yield the exchanges of turns; a recorded turn is always rendered the same way."""
    for ref in turns:
        text, reply = ref.text, ref.reply
        try:
            asked = texts[text] if text and text.characters else ""
            answered = texts[reply] if reply and reply.characters else ""
            if work and ref.work:
                answered = worked_out(texts[ref.work], answered)
        except KeyError as missing:
            raise Corrupt(f"turn {ref.turn}", f"the text of {missing} was not fetched") from None
        yield exchange(ref.turn, asked, answered, counting)
