from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnlog.events.call import ContextAssembled
from turnlog.events.envelope import RecordedEvent
from turnlog.events.phase import PhaseEntered
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.tool import ToolCalled, ToolReturned
from turnlog.events.turn import ReplyFallback, TurnCompleted, TurnSubmitted
from turnlog.projections.audit.fates import is_latest_when_redacted
from turnlog.projections.audit.known import PartialLog
from turnlog.projections.audit.notes import find_note_carrier
from turnlog.projections.audit.origins import EventRef, build_event_ref
from turnlog.projections.session.under_way import REDACTION_NOTE_RULE


@dataclass(frozen=True, slots=True)
class TurnEffect:
    """Something that a turn led to."""

    by: EventRef
    """The event it is known from."""
    what: str
    """A description for people."""


def iterate_effects(log: PartialLog, turn: int) -> Iterator[TurnEffect]:
    """Yield what a turn led to, in order; all events of the turn must be loaded."""
    for recorded in log.events:
        if what := _describe_effect(recorded, turn):
            yield TurnEffect(build_event_ref(recorded), what)
        if isinstance(recorded.event, PhaseEntered) and recorded.event.turn == turn:
            yield from _find_started_turn(recorded.event.phase, log.find_event(recorded.sequence + 1))
    if noted := _find_note_effect(log, turn):
        yield noted


def _describe_effect(recorded: RecordedEvent, turn: int) -> str:
    match recorded.event:
        case ToolCalled() as event if event.turn == turn:
            return f"it asked for {event.tool} {event.arguments}"
        case ToolReturned() as event if event.turn == turn:
            return f"{event.tool} was {event.outcome}" + (
                f": {event.detail}" if event.detail else ""
            )
        case TurnCompleted(fallback=ReplyFallback() as instead) as event if event.turn == turn:
            return f"it was answered without the model: {instead.code}"
        case PhaseEntered() as event if event.turn == turn:
            forced = ", since the phase had reached its most exchanges" if event.forced else ""
            return f"{event.before} → {event.phase} by {event.signal}{forced}"
        case _:
            return ""


def _find_started_turn(phase: str, after: RecordedEvent | None) -> Iterator[TurnEffect]:
    """Yield the turn that started by itself when a phase was entered."""
    if after and isinstance(after.event, TurnSubmitted) and after.event.text is None:
        what = f"turn {after.event.turn} started by itself in phase {phase}"
        yield TurnEffect(build_event_ref(after), what)


def _find_note_effect(log: PartialLog, turn: int) -> TurnEffect | None:
    """Return the first call that carried a note about the turn's withheld reply."""
    withheld = [each for each in log.events if _is_redaction_of(each, turn)][-1:]
    told = (find_note_carrier(each, log) for each in withheld if is_latest_when_redacted(each, log))
    return next((_describe_note_carrier(each) for each in told if each), None)


def _is_redaction_of(recorded: RecordedEvent, turn: int) -> bool:
    return isinstance(recorded.event, ReplyRedacted) and recorded.event.turn == turn


def _describe_note_carrier(recorded: RecordedEvent) -> TurnEffect | None:
    match recorded.event:
        case ContextAssembled(call=call, manifest=manifest):
            told = [part.layer for part in manifest.parts if part.rule == REDACTION_NOTE_RULE and part.is_included]
            what = f"call {call} was told of it by {', '.join(told)}"
            return TurnEffect(build_event_ref(recorded), what) if told else None
        case _:
            return None
