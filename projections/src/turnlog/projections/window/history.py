"""History in a window: which turns a view holds, and why the others are not in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from turnlog.events.errors import Corrupt
from turnlog.projections.blueprint.budget import Budget, widest
from turnlog.projections.blueprint.schema import History
from turnlog.projections.session.state import MOST_RECENT, Run, Said, SessionState, TurnRef
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.memory import Recall, forgotten, messages_in
from turnlog.projections.window.spoken import Exchange, exchange, worked_out
from turnlog.projections.window.visibility import OUT_OF_SIGHT, Sight

OUT_OF_REACH: Final = "out of reach"
"""Why a turn is left out that is older than any window looks."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Turns that are not in the view, all for one reason."""

    first: int
    last: int
    rule: str


def chosen(
    view: History, state: SessionState, sight: Sight, recall: Recall | None = None
) -> tuple[tuple[TurnRef, ...], tuple[LeftOut, ...]]:
    """Split the settled turns into those a view holds, oldest first, and those it does not."""
    far = 0 if view.all else max(0, len(state.turns) - MOST_RECENT)
    recent = state.turns[far:]
    usable = [ref for ref in recent if ref.characters and sight.holds(ref.phase)]
    over = 0 if view.max_turns is None else max(0, len(usable) - view.max_turns)
    rules = {ref.turn: "max_turns" for ref in usable[:over]}
    rules |= forgotten(recall, usable[over:]) if recall else {}
    if len(usable) < len(recent):
        rules |= {ref.turn: rule for ref in recent if (rule := _rule(ref, sight))}
    out = [LeftOut(run.first, run.last, _far(run, sight)) for run in state.earlier]
    out += [LeftOut(ref.turn, ref.turn, _far(ref, sight)) for ref in state.turns[:far]]
    out += [LeftOut(turn, turn, rule) for turn, rule in rules.items()]
    return tuple([ref for ref in usable if ref.turn not in rules]), merged(out)


def _far(turns: TurnRef | Run, sight: Sight) -> str:
    return OUT_OF_REACH if sight.holds(turns.phase) else OUT_OF_SIGHT


def _rule(turns: TurnRef | Run, sight: Sight) -> str | None:
    if not sight.holds(turns.phase):
        return OUT_OF_SIGHT
    if turns.excluded:
        return "excluded"
    if turns.status != "completed":
        return turns.status
    silent = isinstance(turns, TurnRef) and not messages_in(turns)
    return "nothing was said" if silent else None


def merged(out: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """Join neighbours that are left out for the same reason."""
    runs: list[LeftOut] = []
    for run in sorted(out, key=lambda run: run.first):
        if runs and runs[-1].rule == run.rule and runs[-1].last + 1 == run.first:
            runs[-1] = LeftOut(runs[-1].first, run.last, run.rule)
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
) -> bool:
    """Tell whether a view could hold turns that the state keeps as runs only.

    `tokens` is what the budget allows.
    """
    if not any(_rule(run, sight) is None for run in state.earlier):
        return False
    if view.all:
        return True
    usable = [ref for ref in state.turns if ref.characters and sight.holds(ref.phase)]
    if recall and (recall.silent or forgotten(recall, usable)):
        return False
    most = MOST_RECENT if view.max_turns is None else view.max_turns
    if len(state.turns) >= MOST_RECENT or len(usable) >= most:
        return False
    if budget is None:
        return True
    held = sum(ref.characters for ref in usable)
    return held < tokens * widest(budget.counter)


def said_in(turns: Iterable[TurnRef], *, work: bool = False) -> Iterator[Said]:
    """Give where the texts of these turns stand, in order."""
    for ref in turns:
        stand = (ref.text, ref.reply, ref.work if work else None)
        yield from (said for said in stand if said and said.characters)


def exchanges_of(
    turns: Iterable[TurnRef], texts: Mapping[Said, str], counting: Counting, *, work: bool = False
) -> Iterator[Exchange]:
    """Render turns; what was recorded is never rendered in another way later."""
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
