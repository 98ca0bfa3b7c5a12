"""How summaries and purges change the state of a session."""

from __future__ import annotations

from typing import assert_never

from turnlog.events.envelope import RecordedEvent
from turnlog.events.model.memory_events import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryUndone,
)
from turnlog.projections.session.fast_replace import replace
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import build_text_ref
from turnlog.projections.session.tool_disclosure import renew_disclosure
from turnlog.projections.session.turn_summaries import HistorySummary, PendingSummary, add_summary

SessionMemoryEvent = SummaryBegun | HistorySummarised | SummaryFailed | SummaryUndone | MemoryPurged
"""Events of summaries and memory."""


def apply_memory_event(
    state: SessionState, recorded: RecordedEvent, event: SessionMemoryEvent
) -> SessionState:
    match event:
        case SummaryBegun():
            summing = PendingSummary(event.view, event.turns, event.former, event.characters)
            return _set_pending_summary(state, event.turn, summing, event.view)
        case HistorySummarised():
            made = HistorySummary(
                event.view,
                build_text_ref(recorded, "summary", event.summary),
                event.turns,
                event.phases,
                event.former,
            )
            added = replace(state, summaries=add_summary(state.summaries, made))
            return _set_pending_summary(added, event.turn, None)
        case SummaryFailed(turn=turn):
            return _close_summary_call(state, turn)
        case SummaryUndone():
            return _remove_summary(state, event)
        case MemoryPurged(upto=upto):
            return _purge_memory(state, upto)
        case _ as never:
            assert_never(never)


def _set_pending_summary(
    state: SessionState, turn: int, summing: PendingSummary | None, view: str = ""
) -> SessionState:
    opened = state.open
    if opened is None or opened.turn != turn:
        return state
    summed = (*opened.summed, view) if view else opened.summed
    return replace(state, open=replace(opened, summing=summing, summed=summed))


def _close_summary_call(state: SessionState, turn: int) -> SessionState:
    """Close the summary call, whether it was made or not; the next call follows."""
    opened = state.open
    if opened is None or opened.turn != turn:
        return state
    calls, attempt = opened.calls, opened.attempt
    over = replace(opened, summing=None, answered=calls, begun=attempt, context=None)
    return replace(state, open=over)


def _remove_summary(state: SessionState, event: SummaryUndone) -> SessionState:
    left = tuple(each for each in state.summaries if each.sequence != event.sequence)
    whole = state.whole
    if event.cause == "asked":
        whole = {**whole, event.view: state.submitted}
    return replace(state, summaries=left, whole=whole)


def _purge_memory(state: SessionState, upto: int) -> SessionState:
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
    return renew_disclosure(forgotten, "purged")
