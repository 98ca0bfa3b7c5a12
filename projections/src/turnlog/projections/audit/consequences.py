"""Consequences: what a turn led to, beside its reply.

A tool it asked for, a phase it ended, a turn that then started by itself, a note that a later
call was given. Each is told with the event it is known from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.phase import PhaseEntered
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.tool import ToolCalled, ToolReturned
from turnlog.events.turn import Fallback, TurnCompleted, TurnSubmitted
from turnlog.projections.audit.fates import fates, noting
from turnlog.projections.audit.origins import Cause, cause
from turnlog.projections.session.evolve import NOTE_RULE


@dataclass(frozen=True, slots=True)
class Consequence:
    """Something a turn led to."""

    by: Cause
    """The event it is known from."""
    what: str
    """The same for people."""


def consequences(events: Sequence[Recorded], turn: int) -> Iterator[Consequence]:
    """Give what a turn led to, in order."""
    for before, recorded in pairwise(events):
        if what := _direct(recorded, turn) or _started(before, recorded, turn):
            yield Consequence(cause(recorded), what)
    if noted := _noted(events, turn):
        yield noted


def _direct(recorded: Recorded, turn: int) -> str:
    match recorded.event:
        case ToolCalled() as event if event.turn == turn:
            return f"it asked for {event.tool} {event.arguments}"
        case ToolReturned() as event if event.turn == turn:
            return f"{event.tool} was {event.outcome}" + (
                f": {event.detail}" if event.detail else ""
            )
        case TurnCompleted(fallback=Fallback() as instead) as event if event.turn == turn:
            return f"it was answered without the model: {instead.code}"
        case PhaseEntered() as event if event.turn == turn:
            forced = ", since the phase had reached its most exchanges" if event.forced else ""
            return f"{event.before} → {event.phase} by {event.signal}{forced}"
        case _:
            return ""


def _started(before: Recorded, recorded: Recorded, turn: int) -> str:
    match before.event, recorded.event:
        case PhaseEntered(turn=by) as entered, TurnSubmitted(text=None) as event if by == turn:
            return f"turn {event.turn} started by itself in phase {entered.phase}"
        case _:
            return ""


def _noted(events: Sequence[Recorded], turn: int) -> Consequence | None:
    """Find the call that was told of a reply withheld: the first that carried a note of it."""
    withheld = sorted(noting(fates(events)), key=lambda each: each.sequence)
    for told, after in zip_longest(withheld, withheld[1:]):
        if isinstance(told.event, ReplyRedacted) and told.event.turn == turn:
            upto = after.sequence if after else events[-1].sequence
            later = (each for each in events if told.sequence < each.sequence <= upto)
            return next(filter(None, map(_carrying, later)), None)
    return None


def _carrying(recorded: Recorded) -> Consequence | None:
    match recorded.event:
        case ContextAssembled(call=call, manifest=manifest):
            told = [part.layer for part in manifest.parts if part.rule == NOTE_RULE and part.kept]
            what = f"call {call} was told of it by {', '.join(told)}"
            return Consequence(cause(recorded), what) if told else None
        case _:
            return None
