"""The rules of memory: when a summary falls, who may undo one, and what a purge leaves.

A summary tells of all of its turns at once. So when one of them is taken back, it falls with every
later one that took it in, and the next turn may have another written without it. One that somebody
undoes was not wanted: its view is left whole until it has grown by as much again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, assert_never

from turnlog.events.errors import Refused
from turnlog.events.memory import MemoryPurged, SummaryUndone
from turnlog.projections.session import summing
from turnlog.projections.session.attempts import Events
from turnlog.projections.session.memory_commands import (
    BeginSummary,
    GiveUpSummary,
    MemoryCommand,
    PurgeMemory,
    RecordSummary,
    UndoSummary,
)
from turnlog.projections.session.phasing import still_open
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.summaries import holds


def remember(state: SessionState, command: MemoryCommand) -> Events:
    """Say what a command on the memory leads to."""
    match command:
        case BeginSummary():
            return summing.begin(state, command)
        case RecordSummary():
            return summing.record(state, command)
        case GiveUpSummary():
            return summing.give_up(state, command)
        case UndoSummary(sequence=sequence):
            return undo(state, sequence)
        case PurgeMemory():
            return purge(state)
        case _ as never:
            assert_never(never)


def undo(state: SessionState, sequence: int) -> Events:
    """Let a summary stand no more; refuses one that later ones took in, or that is not there."""
    still_open(state)
    found = next((each for each in state.summaries if each.sequence == sequence), None)
    if found is None:
        detail = f"event {sequence} holds no summary that stands"
        raise Refused("unknown-summary", detail, field="sequence", fix="name one that stands")
    _at_rest(state)
    by = next((each for each in state.summaries if each.former == found.sequence), None)
    if by is not None:
        detail = f"the summary of event {by.sequence} took it in"
        raise Refused("summary-taken-in", detail, field="sequence", fix="undo that one first")
    if found.former and not any(each.sequence == found.former for each in state.summaries):
        detail = f"the summary before it, of event {found.former}, lies too far back"
        raise Refused("summary-too-old", detail, field="sequence", fix="exclude a turn it tells of")
    return (SummaryUndone(sequence=found.sequence, view=found.view),)


def purge(state: SessionState) -> Events:
    """Leave all turns so far out of windows; nothing where there are none that stand in any."""
    still_open(state)
    _at_rest(state)
    if state.purged == state.submitted:
        return ()
    return (MemoryPurged(upto=state.submitted),)


def _at_rest(state: SessionState) -> None:
    if state.open is not None:
        detail = f"turn {state.open.turn} is not answered yet"
        raise Refused("turn-open", detail, fix="wait for it, or cancel it")


def fallen(
    state: SessionState, turn: int, cause: Literal["excluded", "redacted"]
) -> Iterator[SummaryUndone]:
    """Give the end of every summary that tells of a turn, the latest first."""
    for each in reversed(state.summaries):
        if holds(each.turns, turn):
            yield SummaryUndone(sequence=each.sequence, view=each.view, cause=cause, turn=turn)
