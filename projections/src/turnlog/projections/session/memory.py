"""Rules for summaries and memory: record a summary, undo one, and purge all.

A turn that waits for a summary continues in any case, with it or without. The outcome of the
summary call and the claim to the next call form one batch. A summary is discarded when it is no
shorter than its source, or when one of its turns was excluded or redacted meanwhile.

A summary covers all of its turns at once. When one of them is excluded or redacted, the summary is
undone together with every later one that absorbed it, and the next turn may request a new one. A
summary that a caller undoes was not wanted: its view is summarised again only after it has grown by
as much again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, assert_never

from turnlog.events.errors import Refused
from turnlog.events.memory import MemoryPurged, SummaryUndone
from turnlog.projections.session import summing
from turnlog.projections.session.attempts import NewEvents
from turnlog.projections.session.memory_commands import (
    BeginSummary,
    GiveUpSummary,
    MemoryCommand,
    PurgeMemory,
    RecordSummary,
    UndoSummary,
)
from turnlog.projections.session.phasing import require_open_session
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.summaries import contains_turn


def decide_memory(state: SessionState, command: MemoryCommand) -> NewEvents:
    """Return the events of a memory command."""
    match command:
        case BeginSummary():
            return summing.begin_summary(state, command)
        case RecordSummary():
            return summing.record_summary(state, command)
        case GiveUpSummary():
            return summing.fail_summary(state, command)
        case UndoSummary(sequence=sequence):
            return undo_summary(state, sequence)
        case PurgeMemory():
            return purge_memory(state)
        case _ as never:
            assert_never(never)


def undo_summary(state: SessionState, sequence: int) -> NewEvents:
    """Undo a summary; refuse one that is not in force or that a later one absorbed."""
    require_open_session(state)
    found = next((each for each in state.summaries if each.sequence == sequence), None)
    if found is None:
        detail = f"event {sequence} holds no summary that stands"
        raise Refused("unknown-summary", detail, field="sequence", fix="name one that stands")
    _require_no_open_turn(state)
    by = next((each for each in state.summaries if each.former == found.sequence), None)
    if by is not None:
        detail = f"the summary of event {by.sequence} took it in"
        raise Refused("summary-taken-in", detail, field="sequence", fix="undo that one first")
    if found.former and not any(each.sequence == found.former for each in state.summaries):
        detail = f"the summary before it, of event {found.former}, lies too far back"
        raise Refused("summary-too-old", detail, field="sequence", fix="exclude a turn it tells of")
    return (SummaryUndone(sequence=found.sequence, view=found.view),)


def purge_memory(state: SessionState) -> NewEvents:
    """Hide all turns so far from windows; nothing where no new turn came since the last purge."""
    require_open_session(state)
    _require_no_open_turn(state)
    if state.purged == state.submitted:
        return ()
    return (MemoryPurged(upto=state.submitted),)


def _require_no_open_turn(state: SessionState) -> None:
    if state.open is not None:
        detail = f"turn {state.open.turn} is not answered yet"
        raise Refused("turn-open", detail, fix="wait for it, or cancel it")


def undo_summaries_of_turn(
    state: SessionState, turn: int, cause: Literal["excluded", "redacted"]
) -> Iterator[SummaryUndone]:
    """Undo every summary that covers a turn, the latest first."""
    for each in reversed(state.summaries):
        if contains_turn(each.turns, turn):
            yield SummaryUndone(sequence=each.sequence, view=each.view, cause=cause, turn=turn)
