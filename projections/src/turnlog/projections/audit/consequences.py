from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.phase import PhaseEntered
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.tool import ToolCalled, ToolReturned
from turnlog.events.turn import Fallback, TurnCompleted, TurnSubmitted
from turnlog.projections.audit.fates import was_latest
from turnlog.projections.audit.known import Known
from turnlog.projections.audit.notes import told_of
from turnlog.projections.audit.origins import Cause, cause
from turnlog.projections.session.under_way import NOTE_RULE


@dataclass(frozen=True, slots=True)
class Consequence:
    """Something that a turn led to."""

    by: Cause
    """The event it is known from."""
    what: str
    """A description for people."""


def consequences(record: Known, turn: int) -> Iterator[Consequence]:
    """Yield what a turn led to, in order; all events of the turn must be loaded."""
    for recorded in record.events:
        if what := _direct(recorded, turn):
            yield Consequence(cause(recorded), what)
        if isinstance(recorded.event, PhaseEntered) and recorded.event.turn == turn:
            yield from _started(recorded.event.phase, record.at(recorded.sequence + 1))
    if noted := _noted(record, turn):
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


def _started(phase: str, after: Recorded | None) -> Iterator[Consequence]:
    """Yield the turn that started by itself when a phase was entered."""
    if after and isinstance(after.event, TurnSubmitted) and after.event.text is None:
        what = f"turn {after.event.turn} started by itself in phase {phase}"
        yield Consequence(cause(after), what)


def _noted(record: Known, turn: int) -> Consequence | None:
    """Return the first call that carried a note about the turn's withheld reply."""
    withheld = [each for each in record.events if _withheld(each, turn)][-1:]
    told = (told_of(each, record) for each in withheld if was_latest(each, record))
    return next((_carrying(each) for each in told if each), None)


def _withheld(recorded: Recorded, turn: int) -> bool:
    return isinstance(recorded.event, ReplyRedacted) and recorded.event.turn == turn


def _carrying(recorded: Recorded) -> Consequence | None:
    match recorded.event:
        case ContextAssembled(call=call, manifest=manifest):
            told = [part.layer for part in manifest.parts if part.rule == NOTE_RULE and part.kept]
            what = f"call {call} was told of it by {', '.join(told)}"
            return Consequence(cause(recorded), what) if told else None
        case _:
            return None
