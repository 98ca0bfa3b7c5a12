"""Redaction notes: which calls include the note that the latest reply or text was withheld.

Only the calls of one turn carry a note: the first turn that does. A later note of the same kind
replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.redaction_events import (
    RedactionEvent,
    ReplyRedacted,
    TextRedacted,
    is_of_ended_turn,
)
from turnlog.events.model.turn_events import (
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnSubmitted,
)
from turnlog.projections.audit.record.partial_log import PartialLog
from turnlog.projections.session.fold.due_notes import REDACTION_NOTE_RULE, TEXT_NOTE_RULE
from turnlog.projections.session.state import RedactionNote, SessionState


@dataclass(frozen=True, slots=True)
class NoteKind:
    """What a note is about: a reply, or the text of a person."""

    event: type[RedactionEvent]
    """The event that calls for the note."""
    rule: str
    """Rule that a manifest names for a part that is included because of it."""
    get_note: Callable[[SessionState], RedactionNote | None]
    """Returns the note of this kind that a state has."""


REPLY_NOTE: Final = NoteKind(ReplyRedacted, REDACTION_NOTE_RULE, lambda state: state.note)
TEXT_NOTE: Final = NoteKind(TextRedacted, TEXT_NOTE_RULE, lambda state: state.text_note)
NOTE_KINDS: Final = {kind.rule: kind for kind in (REPLY_NOTE, TEXT_NOTE)}
"""The kinds of notes by their rule in manifests."""


def iterate_noted_redactions(
    kind: NoteKind, log: PartialLog, after: int = 0
) -> Iterator[RecordedEvent]:
    """Yield the redactions after a sequence that call for a note, the latest first.

    Of a turn that was redacted more than once, the last redaction counts.
    """
    seen_turns = set[int]()
    for recorded in reversed(log.events):
        turn = find_redacted_turn(recorded, kind)
        if turn is not None and recorded.sequence > after and turn not in seen_turns:
            seen_turns.add(turn)
            if is_latest_when_redacted(turn, recorded, log):
                yield recorded


def find_redacted_turn(recorded: RecordedEvent, kind: NoteKind = REPLY_NOTE) -> int | None:
    """Return the turn whose reply or text an event withholds, or None."""
    event = recorded.event
    return event.turn if isinstance(event, kind.event) else None


def iterate_note_carriers(
    kind: NoteKind, redaction: RecordedEvent, log: PartialLog
) -> Iterator[RecordedEvent]:
    """Yield the calls that carried the note of a redaction, all of them of one turn."""
    carrying_turn: int | None = None
    for recorded in log.iterate_from(redaction.sequence):
        match recorded.event:
            case ContextAssembled(turn=turn) if carrying_turn is not None and turn != carrying_turn:
                return
            case ContextAssembled(turn=turn, manifest=manifest):
                if any(part.rule == kind.rule and part.is_included for part in manifest.parts):
                    carrying_turn = turn
                    yield recorded
            case _:
                pass


def find_note_carrier(
    kind: NoteKind, redaction: RecordedEvent, log: PartialLog
) -> RecordedEvent | None:
    """Return the first call that carried the note of a redaction, or None.

    None also means that a later redaction had replaced the note by then.
    """
    latest = log.states.get(log.end)
    note = kind.get_note(latest) if latest else None
    waits = note is not None and note.told is None and is_redaction_of(redaction, note.turn, kind)
    call = None if waits else next(iterate_note_carriers(kind, redaction, log), None)
    if call is None:
        return None
    before = (
        each
        for each in iterate_noted_redactions(kind, log, redaction.sequence)
        if each.sequence < call.sequence
    )
    return None if next(before, None) else call


def is_redaction_of(recorded: RecordedEvent, turn: int, kind: NoteKind = REPLY_NOTE) -> bool:
    """Return whether an event withholds the reply or the text of a turn."""
    return find_redacted_turn(recorded, kind) == turn


def is_latest_when_redacted(turn: int, redaction: RecordedEvent, log: PartialLog) -> bool:
    """Return whether a turn was the latest one when its reply or text was redacted.

    The next call carries a note only then.
    """
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
