"""A conversation on a terminal: what was said, what was answered, and what became of each turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from turnlog.services.cli.screens.margin import beside
from turnlog.services.cli.screens.palette import BAD, FAMILIES, QUIET, WARY
from turnlog.services.cli.screens.spelling import clock, one_line
from turnlog.services.gateway.payloads.turns import TurnView

WIDTH: Final = 9
"""Columns of who speaks."""
SAID: Final = FAMILIES["turn"]
REPLY: Final = FAMILIES["session"]
_HIDDEN: Final = "(its text is sealed or erased)"
_NO_TEXT: Final = "(nothing: it started by itself, or its text is sealed or erased)"


def conversation(turns: Iterable[TurnView]) -> RenderableType:
    """Lay out turns as people read them."""
    return Group(*(line for turn in turns for line in _turn(turn)))


def _turn(turn: TurnView) -> Iterator[RenderableType]:
    yield _heading(turn)
    yield said(turn.text if turn.text is not None else _NO_TEXT)
    if turn.reply == "":
        yield beside("reply", "(empty)", REPLY, WIDTH, QUIET)
    elif turn.reply is not None:
        yield beside("reply", turn.reply, BAD if turn.redacted else REPLY, WIDTH)
    elif turn.status == "completed":
        yield beside("reply", _HIDDEN, REPLY, WIDTH, QUIET)
    yield Text("")


def said(text: str) -> RenderableType:
    """Lay out what was put to the session."""
    return beside("you", text, SAID, WIDTH)


def _heading(turn: TurnView) -> Text:
    heading = (
        Text().append(f"turn {turn.turn}", "bold").append(f"  {clock(turn.submitted_at)}", QUIET)
    )
    for mark, colour in _marks(turn):
        heading.append("  ").append(one_line(mark), colour)
    return heading


def _marks(turn: TurnView) -> Iterator[tuple[str, str]]:
    """Say what is not as usual; an ordinary turn has no marks."""
    if turn.status in {"failed", "cancelled"}:
        yield (f"{turn.status}: {turn.reason}", BAD if turn.status == "failed" else WARY)
    elif turn.status != "completed":
        yield turn.status, WARY
    if turn.redacted:
        yield f"reply withheld: {turn.reason}", BAD
    if turn.excluded:
        yield "left out of windows", WARY
    if turn.finish not in {None, "stop"}:
        yield f"ended by {turn.finish}", WARY
    if turn.fallback:
        yield f"no model's: {turn.fallback}", WARY
    if not turn.remembered:
        yield "not remembered", QUIET
