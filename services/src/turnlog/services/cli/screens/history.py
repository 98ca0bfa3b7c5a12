"""Sessions on a terminal: a list, one with its turns and calls, and its conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.services.cli.screens.margin import beside
from turnlog.services.cli.screens.palette import BAD, FAMILIES, QUIET, WARY
from turnlog.services.cli.screens.spelling import clock, counted, one_line
from turnlog.services.gateway.payloads.turns import (
    HistoryView,
    StayView,
    ToolUseView,
    TurnView,
)

WIDTH: Final = 9
"""Columns of the speaker's label."""
SAID: Final = FAMILIES["turn"]
REPLY: Final = FAMILIES["session"]
TOOL: Final = FAMILIES["tool"]
PHASE: Final = FAMILIES["phase"]
HIDDEN: Final = "(its text is sealed or erased)"
_NO_TEXT: Final = "(nothing: it started by itself, or its text is sealed or erased)"


def conversation(history: HistoryView) -> RenderableType:
    """Render turns as a conversation, phase by phase if the session has phases."""
    if not history.stays:
        return Group(*(line for turn in history.turns for line in _turn(turn)))
    turns = {turn.turn: turn for turn in history.turns}
    return Group(*(line for stay in history.stays for line in _stay(stay, turns)))


def _stay(stay: StayView, turns: Mapping[int, TurnView]) -> Iterator[RenderableType]:
    yield Text(entrance(stay), PHASE)
    if stay.carried:
        yield beside("told", stay.carried, PHASE, WIDTH)
    yield Text("")
    for turn in stay.turns:
        yield from _turn(turns[turn])


def entrance(stay: StayView) -> str:
    """Return one line that names a phase visit and the phases it can and cannot see."""
    came = f"phase {stay.phase}" + (f", after {stay.before}" if stay.before else "")
    others = ", ".join(phase for phase in stay.shared if phase != stay.phase)
    sees = f" · sees {others}" if others else ""
    hidden = f" · not {', '.join(stay.hidden)}" if stay.hidden else ""
    return one_line(f"{came}{sees}{hidden}")


def _turn(turn: TurnView) -> Iterator[RenderableType]:
    yield _heading(turn)
    yield said(turn.text if turn.text is not None else _NO_TEXT)
    if turn.steps or turn.tools:
        yield beside("plan" if turn.steps else "tools", "\n".join(doings(turn)), TOOL, WIDTH)
    if turn.reply == "":
        yield beside("reply", "(empty)", REPLY, WIDTH, QUIET)
    elif turn.reply is not None:
        yield beside("reply", turn.reply, BAD if turn.redacted else REPLY, WIDTH)
    elif turn.status == "completed":
        yield beside("reply", HIDDEN, REPLY, WIDTH, QUIET)
    yield Text("")


def doings(turn: TurnView) -> Iterator[str]:
    """Yield a line for each step and each tool use before the reply."""
    for step in turn.steps:
        done = " (the turn before had done it)" if step.given else ""
        yield one_line(f"{step.step}. {step.goal or HIDDEN}{done}")
        yield from (f"   {_use(use)}" for use in turn.tools if use.step == step.step)
    yield from (_use(use) for use in turn.tools if use.step is None)


def _use(use: ToolUseView) -> str:
    came = use.outcome or "is under way"
    more = f": {use.detail}" if use.detail else ""
    size = f", {counted(use.characters, 'character')}" if use.characters else ""
    short = " told in short" if use.condensed else ""
    named = f" · {use.call} {use.id}"
    return one_line(f"{use.tool} {use.arguments} · {came}{more}{size}{short}{named}")


def said(text: str) -> RenderableType:
    """Render the user's text of a turn."""
    return beside("you", text, SAID, WIDTH)


def _heading(turn: TurnView) -> Text:
    heading = (
        Text().append(f"turn {turn.turn}", "bold").append(f"  {clock(turn.submitted_at)}", QUIET)
    )
    for mark, colour in _marks(turn):
        heading.append("  ").append(one_line(mark), colour)
    return heading


def _marks(turn: TurnView) -> Iterator[tuple[str, str]]:
    """Yield what is unusual about a turn, with its colour; an ordinary turn has no marks."""
    if turn.status in {"failed", "cancelled"}:
        yield (f"{turn.status}: {turn.reason}", BAD if turn.status == "failed" else WARY)
    elif turn.status != "completed":
        yield turn.status, WARY
    if turn.redacted:
        yield f"reply withheld: {turn.reason}", BAD
    if turn.excluded:
        yield "left out of windows", WARY
    if turn.purged:
        yield "purged from windows", WARY
    if turn.finish not in {None, "stop"}:
        yield f"ended by {turn.finish}", WARY
    if turn.fallback:
        yield f"no model's: {turn.fallback}", WARY
    if not turn.remembered:
        yield "not remembered", QUIET
