"""Sessions on a terminal: a list, one with its turns and calls, and its conversation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.services.cli.screens.margin import render_labelled_text
from turnlog.services.cli.screens.palette import BAD, FAMILY_COLOURS, MUTED, WARNING
from turnlog.services.cli.screens.spelling import format_time, format_count, format_one_line
from turnlog.services.gateway.payloads.turns import (
    HistoryView,
    PhaseVisitView,
    ToolUseView,
    TurnView,
)

LABEL_WIDTH: Final = 9
"""Columns of the speaker's label."""
USER_COLOUR: Final = FAMILY_COLOURS["turn"]
REPLY_COLOUR: Final = FAMILY_COLOURS["session"]
TOOL_COLOUR: Final = FAMILY_COLOURS["tool"]
PHASE_COLOUR: Final = FAMILY_COLOURS["phase"]
HIDDEN_TEXT: Final = "(its text is sealed or erased)"
_NO_TEXT: Final = "(nothing: it started by itself, or its text is sealed or erased)"


def render_conversation(history: HistoryView) -> RenderableType:
    """Render turns as a conversation, phase by phase if the session has phases."""
    if not history.stays:
        return Group(*(line for turn in history.turns for line in _render_turn(turn)))
    turns = {turn.turn: turn for turn in history.turns}
    return Group(*(line for stay in history.stays for line in _render_phase_visit(stay, turns)))


def _render_phase_visit(stay: PhaseVisitView, turns: Mapping[int, TurnView]) -> Iterator[RenderableType]:
    yield Text(format_phase_heading(stay), PHASE_COLOUR)
    if stay.carried:
        yield render_labelled_text("told", stay.carried, PHASE_COLOUR, LABEL_WIDTH)
    yield Text("")
    for turn in stay.turns:
        yield from _render_turn(turns[turn])


def format_phase_heading(stay: PhaseVisitView) -> str:
    """Return one line that names a phase visit and the phases it can and cannot see."""
    came = f"phase {stay.phase}" + (f", after {stay.before}" if stay.before else "")
    others = ", ".join(phase for phase in stay.shared if phase != stay.phase)
    sees = f" · sees {others}" if others else ""
    hidden = f" · not {', '.join(stay.hidden)}" if stay.hidden else ""
    return format_one_line(f"{came}{sees}{hidden}")


def _render_turn(turn: TurnView) -> Iterator[RenderableType]:
    yield _render_turn_heading(turn)
    yield render_user_text(turn.text if turn.text is not None else _NO_TEXT)
    if turn.steps or turn.tools:
        yield render_labelled_text("plan" if turn.steps else "tools", "\n".join(format_turn_activity(turn)), TOOL_COLOUR, LABEL_WIDTH)
    if turn.reply == "":
        yield render_labelled_text("reply", "(empty)", REPLY_COLOUR, LABEL_WIDTH, MUTED)
    elif turn.reply is not None:
        yield render_labelled_text("reply", turn.reply, BAD if turn.redacted else REPLY_COLOUR, LABEL_WIDTH)
    elif turn.status == "completed":
        yield render_labelled_text("reply", HIDDEN_TEXT, REPLY_COLOUR, LABEL_WIDTH, MUTED)
    yield Text("")


def format_turn_activity(turn: TurnView) -> Iterator[str]:
    """Yield a line for each step and each tool use before the reply."""
    for step in turn.steps:
        done = " (the turn before had done it)" if step.given else ""
        yield format_one_line(f"{step.step}. {step.goal or HIDDEN_TEXT}{done}")
        yield from (f"   {_format_tool_use(use)}" for use in turn.tools if use.step == step.step)
    yield from (_format_tool_use(use) for use in turn.tools if use.step is None)


def _format_tool_use(use: ToolUseView) -> str:
    came = use.outcome or "is under way"
    more = f": {use.detail}" if use.detail else ""
    size = f", {format_count(use.characters, 'character')}" if use.characters else ""
    short = " told in short" if use.condensed else ""
    named = f" · {use.call} {use.id}"
    return format_one_line(f"{use.tool} {use.arguments} · {came}{more}{size}{short}{named}")


def render_user_text(text: str) -> RenderableType:
    """Render the user's text of a turn."""
    return render_labelled_text("you", text, USER_COLOUR, LABEL_WIDTH)


def _render_turn_heading(turn: TurnView) -> Text:
    heading = (
        Text().append(f"turn {turn.turn}", "bold").append(f"  {format_time(turn.submitted_at)}", MUTED)
    )
    for mark, colour in _list_marks(turn):
        heading.append("  ").append(format_one_line(mark), colour)
    return heading


def _list_marks(turn: TurnView) -> Iterator[tuple[str, str]]:
    """Yield what is unusual about a turn, with its colour; an ordinary turn has no marks."""
    if turn.status in {"failed", "cancelled"}:
        yield (f"{turn.status}: {turn.reason}", BAD if turn.status == "failed" else WARNING)
    elif turn.status != "completed":
        yield turn.status, WARNING
    if turn.redacted:
        yield f"reply withheld: {turn.reason}", BAD
    if turn.excluded:
        yield "left out of windows", WARNING
    if turn.purged:
        yield "purged from windows", WARNING
    if turn.finish not in {None, "stop"}:
        yield f"ended by {turn.finish}", WARNING
    if turn.fallback:
        yield f"no model's: {turn.fallback}", WARNING
    if not turn.remembered:
        yield "not remembered", MUTED
