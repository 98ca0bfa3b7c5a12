"""Due notes: the redactions that prompts still have to mention.

The first turn whose prompts include a note keeps it, in all its attempts; the next turn drops it.
"""

from __future__ import annotations

from typing import Final

from turnlog.events.model.call_events import ContextAssembled
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.state import RedactionNote, SessionState

REDACTION_NOTE_RULE: Final = "when reply_redacted"
"""Rule that a manifest names for a part that is included because a reply was redacted."""

TEXT_NOTE_RULE: Final = "when text_redacted"
"""Rule that a manifest names for a part that is included because a text was redacted."""


def update_notes(state: SessionState, event: ContextAssembled) -> SessionState:
    """Return the state after a prompt: the first turn to carry a note keeps it."""
    note = _update_note(state.note, event, REDACTION_NOTE_RULE)
    text_note = _update_note(state.text_note, event, TEXT_NOTE_RULE)
    if note is state.note and text_note is state.text_note:
        return state
    return replace(state, note=note, text_note=text_note)


def _update_note(
    note: RedactionNote | None, event: ContextAssembled, rule: str
) -> RedactionNote | None:
    if note is None or note.told == event.turn:
        return note
    if note.told is not None:
        return None
    carried = any(part.rule == rule and part.is_included for part in event.manifest.parts)
    return replace(note, told=event.turn) if carried else note


def is_note_due(note: RedactionNote | None, state: SessionState) -> bool:
    """Return whether a note belongs in the prompts of the open turn, or of the next one."""
    turn = state.open.turn if state.open else state.submitted + 1
    return note is not None and note.told in {None, turn}
