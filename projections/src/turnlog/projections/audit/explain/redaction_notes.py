"""Redaction notes: which calls include the note that the latest reply was withheld.

Only the calls of one turn carry a note: the first turn that does. A later note replaces it.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.redaction_events import ReplyRedacted, is_of_ended_turn
from turnlog.events.model.turn_events import (
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnSubmitted,
)
from turnlog.projections.audit.record.partial_log import PartialLog
from turnlog.projections.session.fold.turn_progress import REDACTION_NOTE_RULE


def iterate_noted_redactions(log: PartialLog, after: int = 0) -> Iterator[RecordedEvent]:
    """Yield the redactions after a sequence that call for a note, the latest first.

    Of a turn that was redacted more than once, the last redaction counts.
    """
    seen_turns = set[int]()
    for recorded in reversed(log.events):
        match recorded.event:
            case ReplyRedacted(turn=turn) if recorded.sequence > after and turn not in seen_turns:
                seen_turns.add(turn)
                if is_latest_when_redacted(recorded, log):
                    yield recorded
            case _:
                pass


def iterate_note_carriers(redaction: RecordedEvent, log: PartialLog) -> Iterator[RecordedEvent]:
    """Yield the calls that carried the note of a redaction, all of them of one turn."""
    carrying_turn: int | None = None
    for recorded in log.iterate_from(redaction.sequence):
        match recorded.event:
            case ContextAssembled(turn=turn) if carrying_turn is not None and turn != carrying_turn:
                return
            case ContextAssembled(turn=turn, manifest=manifest):
                if any(
                    part.rule == REDACTION_NOTE_RULE and part.is_included for part in manifest.parts
                ):
                    carrying_turn = turn
                    yield recorded
            case _:
                pass


def find_note_carrier(redaction: RecordedEvent, log: PartialLog) -> RecordedEvent | None:
    """Return the first call that carried the note of a redaction, or None.

    None also means that a later redaction had replaced the note by then.
    """
    latest = log.states.get(log.end)
    note = latest.note if latest else None
    waits = note is not None and note.told is None and is_redaction_of(redaction, note.turn)
    call = None if waits else next(iterate_note_carriers(redaction, log), None)
    if call is None:
        return None
    before = (
        each
        for each in iterate_noted_redactions(log, redaction.sequence)
        if each.sequence < call.sequence
    )
    return None if next(before, None) else call


def is_redaction_of(recorded: RecordedEvent, turn: int) -> bool:
    """Return whether an event withholds the reply of a turn."""
    return isinstance(recorded.event, ReplyRedacted) and recorded.event.turn == turn


def is_latest_when_redacted(redaction: RecordedEvent, log: PartialLog) -> bool:
    """Return whether a reply was the latest one when it was redacted.

    The next call carries a note only then.
    """
    turn = redaction.event.turn if isinstance(redaction.event, ReplyRedacted) else 0
    for recorded in log.iterate_back(redaction.sequence - 1):
        match recorded.event:
            case TurnCompleted(call=None, fallback=None):
                pass  # A turn of the system has no reply
            case ReplyRedacted() as event if is_of_ended_turn(event):
                pass  # The event by which it ended comes before
            case TurnCompleted(turn=other) | ReplyRedacted(turn=other) if other > turn:
                return False
            case TurnFailed(cut_reply=None) | TurnCancelled(cut_reply=None) as event:
                if event.turn == turn:
                    return False  # No prompt includes what was said in it
            case TurnFailed(turn=other) | TurnCancelled(turn=other) if other > turn:
                return False
            case TurnSubmitted(turn=begun) | TurnQueued(turn=begun) if begun == turn:
                return True
            case _:
                pass
    return False
