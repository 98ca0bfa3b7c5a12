"""How events change the open turn: submitted, claimed, prompted, resolved, continued and settled.

Events of a turn that is no longer open change nothing, except the redaction of its reply.
"""

from __future__ import annotations

from typing import Final

from turnlog.events.call import AttemptEnded, AttemptStarted, ContextAssembled
from turnlog.events.envelope import Recorded
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.reference import TurnResolved
from turnlog.events.turn import TurnQueued, TurnSubmitted
from turnlog.projections.session.progress import Progress, advanced, returns
from turnlog.projections.session.replacing import replace
from turnlog.projections.session.standing import said, stands
from turnlog.projections.session.state import (
    Brought,
    Note,
    OpenTurn,
    Resolved,
    Said,
    SessionState,
    Settled,
    TurnRef,
)
from turnlog.projections.session.turns import kept, with_turn

NOTE_RULE: Final = "when reply_redacted"
"""Rule that a manifest names for a part that is included because a reply was redacted."""


def went_on(state: SessionState, recorded: Recorded, event: Progress) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    return replace(state, open=advanced(state.open, recorded, event))


def resolved(state: SessionState, recorded: Recorded, event: TurnResolved) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    found = Resolved(
        event.intent,
        event.entity,
        event.identifiers,
        stands(recorded, "results", event.results),
        stands(recorded, "answer", event.answer),
    )
    return replace(state, open=replace(state.open, resolved=found))


def submitted(state: SessionState, recorded: Recorded, event: TurnSubmitted) -> SessionState:
    text = said(recorded, "text", event.text)
    at, brought = recorded.envelope.time, brought_by(recorded, event)
    opened = OpenTurn(event.turn, text, recorded.envelope.id, at, inputs=brought)
    return replace(state, open=opened, submitted=event.turn)


def brought_by(recorded: Recorded, event: TurnSubmitted | TurnQueued) -> Brought | None:
    """Return the reference to a turn's inputs, or None where it has none."""
    return Brought(recorded.sequence, recorded.stream_sequence) if event.inputs else None


def released(state: SessionState, recorded: Recorded, turn: int) -> SessionState:
    found = next((waiting for waiting in state.waiting if waiting.turn == turn), None)
    if found is None:
        return state
    at, brought = recorded.envelope.time, found.inputs
    opened = OpenTurn(turn, found.text, found.event, at, inputs=brought)
    rest = tuple(waiting for waiting in state.waiting if waiting.turn != turn)
    return replace(state, open=opened, waiting=rest)


def settled(
    state: SessionState,
    turn: int,
    status: Settled,
    reply: Said | None = None,
    work: Said | None = None,
) -> SessionState:
    """Settle an open or waiting turn, and add it to the settled turns."""
    open_or_waiting = (state.open, *state.waiting)
    text = next((each.text for each in open_or_waiting if each and each.turn == turn), None)
    done = status == "completed"
    counted = replace(
        state,
        open=None if state.open and state.open.turn == turn else state.open,
        waiting=tuple(waiting for waiting in state.waiting if waiting.turn != turn),
        completed=state.completed + done,
        exchanges=state.exchanges + done,
        returns=returns(turn, state.open, state.phase) if done else state.returns,
    )
    return kept(counted, TurnRef(turn, status, text, reply, phase=state.phase, work=work))


def claimed(state: SessionState, event: AttemptStarted) -> SessionState:
    if state.open is None or state.open.turn != event.turn:
        return state
    opened = replace(state.open, attempt=event.attempt, running=True, worker=event.worker)
    return replace(state, open=opened)


def assembled(state: SessionState, recorded: Recorded, event: ContextAssembled) -> SessionState:
    """Record that the prompt of a call is in the log, and which turn carries the redaction note."""
    if state.open is None or state.open.turn != event.turn:
        return state
    place, at = recorded.stream_sequence, recorded.envelope.time
    context = Said(recorded.sequence, place, "manifest", event.manifest.digest, 0, at)
    calls = state.open.calls + 1
    opened = replace(state.open, calls=calls, context=context)
    called = {**state.called, event.manifest.kind: recorded.stream_sequence}
    return replace(state, open=opened, called=called, note=_note_after(state.note, event))


def _note_after(note: Note | None, event: ContextAssembled) -> Note | None:
    """Return the note after a prompt: the first turn to carry it keeps it, the next drops it."""
    if note is None or note.told == event.turn:
        return note
    if note.told is not None:
        return None
    carried = any(part.rule == NOTE_RULE and part.kept for part in event.manifest.parts)
    return replace(note, told=event.turn) if carried else note


def attempt_ended(state: SessionState, event: AttemptEnded) -> SessionState:
    opened = state.open
    if opened is None or opened.turn != event.turn or opened.attempt != event.attempt:
        return state
    return replace(state, open=replace(opened, running=False))


def redacted(state: SessionState, recorded: Recorded, event: ReplyRedacted) -> SessionState:
    """Replace the reply of the open or an earlier turn, and add a note for the latest one."""
    replacement = said(recorded, "replacement", event.replacement)
    if state.open and state.open.turn == event.turn:
        state = settled(state, event.turn, "completed", replacement)
    replied = (ref.turn for ref in state.turns if ref.status == "completed")
    latest = event.turn == max(replied, default=0)
    marked = with_turn(state, event.turn, redacted=True, reply=replacement)
    return replace(marked, note=Note(event.turn)) if latest else marked
