"""How redactions change the state: windows include the replacement of a reply, or of a text."""

from __future__ import annotations

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.redaction_events import (
    ContentErased,
    ErasureEvent,
    ReplyRedacted,
    TextRedacted,
)
from turnlog.events.seals.leaf_sets import join_leaves, parse_leaves
from turnlog.projections.session.fold.settled_turns import (
    erase_turns,
    find_left_outcomes,
    mark_turn,
    redact_text,
)
from turnlog.projections.session.fold.turn_progress import settle_turn
from turnlog.projections.session.frozen_copies import replace
from turnlog.projections.session.state import RedactionNote, SessionState
from turnlog.projections.session.text_refs import build_optional_text_ref


def apply_reply_redacted(
    state: SessionState, recorded: RecordedEvent, event: ReplyRedacted
) -> SessionState:
    """Replace the reply of the open or an earlier turn, and add a note for the latest one."""
    replacement = build_optional_text_ref(recorded, "replacement", event.replacement)
    left = find_left_outcomes(state, recorded, event)
    if state.open and state.open.turn == event.turn:
        state = settle_turn(state, event.turn, "completed", replacement, left=left)
    latest = _is_latest_exchange(state, event.turn)
    marked = mark_turn(state, event.turn, redacted=True, reply=replacement, results=left.results)
    return replace(marked, note=RedactionNote(event.turn)) if latest else marked


def apply_text_redacted(
    state: SessionState, recorded: RecordedEvent, event: TextRedacted
) -> SessionState:
    """Replace the text of an earlier turn, and add a note for the latest one."""
    latest = _is_latest_exchange(state, event.turn)
    redacted = redact_text(state, recorded, event)
    return replace(redacted, text_note=RedactionNote(event.turn)) if latest else redacted


def apply_erasure_event(
    state: SessionState, recorded: RecordedEvent, event: ErasureEvent
) -> SessionState:
    """Forget what is erased of each turn besides its text and reply, which were redacted before."""
    if isinstance(event, ContentErased):
        return replace(state, erasing=tuple(each for each in state.erasing if each != event.begun))
    if recorded.envelope.copyof is None:
        state = replace(state, erasing=(*state.erasing, recorded.sequence))
    if event.origin:
        state = replace(state, erased_by=(*state.erased_by, event.origin.name))
    # The next prompt is compared with none before, of which digests are gone.
    state = replace(state, called={}, erased_in=recorded.sequence)
    if not event.turns:
        return _clear_words(state)
    leaves = join_leaves(state.erased_leaves, parse_leaves(event.leaves))
    return erase_turns(replace(state, erased_leaves=dict(leaves)), event.turns)


def _clear_words(state: SessionState) -> SessionState:
    """Return the state of a session whose words are all erased."""
    return replace(
        state,
        erased=True,
        attributes={},
        metadata={},
        labels=(),
        title=None,
        summaries=(),
        references=(),
        carried=None,
        carried_before=(),
        returns=None,
        note=None,
        text_note=None,
    )


def _is_latest_exchange(state: SessionState, turn: int) -> bool:
    """Return whether windows include a recent turn, and none that was answered after it."""
    replied = {
        ref.turn: ref.status
        for ref in state.turns
        if (ref.status == "completed" or ref.is_kept) and ref.role == "user"
    }
    # The line of a turn that was cut later is no reply that could be the latest.
    is_followed = any(each > turn and status == "completed" for each, status in replied.items())
    return turn in replied and not is_followed
