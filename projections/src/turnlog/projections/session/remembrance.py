"""How summaries and purges change the state of a session."""

from __future__ import annotations

from typing import assert_never

from turnlog.events.envelope import Recorded
from turnlog.events.memory import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryUndone,
)
from turnlog.projections.session.replacing import replace
from turnlog.projections.session.standing import stands
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.summaries import Summary, Summing, kept
from turnlog.projections.session.telling import told_anew

Memorable = SummaryBegun | HistorySummarised | SummaryFailed | SummaryUndone | MemoryPurged
"""Events of summaries and memory."""


def remembered(state: SessionState, recorded: Recorded, event: Memorable) -> SessionState:
    match event:
        case SummaryBegun():
            summing = Summing(event.view, event.turns, event.former, event.characters)
            return _summing(state, event.turn, summing, event.view)
        case HistorySummarised():
            made = Summary(
                event.view,
                stands(recorded, "summary", event.summary),
                event.turns,
                event.phases,
                event.former,
            )
            added = replace(state, summaries=kept(state.summaries, made))
            return _summing(added, event.turn, None)
        case SummaryFailed(turn=turn):
            return _given_up(state, turn)
        case SummaryUndone():
            return _undone(state, event)
        case MemoryPurged(upto=upto):
            return _purged(state, upto)
        case _ as never:
            assert_never(never)


def _summing(
    state: SessionState, turn: int, summing: Summing | None, view: str = ""
) -> SessionState:
    opened = state.open
    if opened is None or opened.turn != turn:
        return state
    summed = (*opened.summed, view) if view else opened.summed
    return replace(state, open=replace(opened, summing=summing, summed=summed))


def _given_up(state: SessionState, turn: int) -> SessionState:
    """Close the summary call, whether it was made or not; the next call follows."""
    opened = state.open
    if opened is None or opened.turn != turn:
        return state
    calls, attempt = opened.calls, opened.attempt
    over = replace(opened, summing=None, answered=calls, begun=attempt, context=None)
    return replace(state, open=over)


def _undone(state: SessionState, event: SummaryUndone) -> SessionState:
    left = tuple(each for each in state.summaries if each.sequence != event.sequence)
    whole = state.whole
    if event.cause == "asked":
        whole = {**whole, event.view: state.submitted}
    return replace(state, summaries=left, whole=whole)


def _purged(state: SessionState, upto: int) -> SessionState:
    """Drop everything in the state that refers to the purged turns."""
    forgotten = replace(
        state,
        purged=upto,
        summaries=(),
        whole={},
        carried=None,
        reference=None,
        note=None,
        returns=None,
    )
    return told_anew(forgotten, "purged")
