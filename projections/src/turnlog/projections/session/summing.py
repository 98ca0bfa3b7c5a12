from __future__ import annotations

from itertools import chain

from turnlog.events.content import PlainText
from turnlog.events.memory import HistorySummarised, SummaryFailed
from turnlog.projections.session.attempts import (
    NewEvents,
    record_answer,
    build_attempt_ended,
    find_claimed_turn,
    start_next_call,
    record_superseded_attempt,
)
from turnlog.projections.session.commands import EndAttempt
from turnlog.projections.session.memory_commands import BeginSummary, GiveUpSummary, RecordSummary
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.session.summaries import PendingSummary


def begin_summary(state: SessionState, command: BeginSummary) -> NewEvents:
    """Let the open turn wait for a summary, once for each view."""
    opened, begun = find_claimed_turn(state, command.attempt), command.begun
    if opened is None or opened.summing or begun.view in opened.summed:
        return ()
    return (begun,)


def record_summary(state: SessionState, command: RecordSummary) -> NewEvents:
    """Record the summary and start the next call; for a superseded worker record only the cost."""
    attempt, text = command.attempt, PlainText(text=command.text)
    opened = find_claimed_turn(state, attempt)
    if opened is None or opened.summing is None:
        return record_superseded_attempt(attempt, command.spent, command.text)
    return (
        *record_answer(attempt, command.spent, text, command.finish, store_text=True),
        _build_summary_outcome(state, opened, opened.summing, command),
        start_next_call(opened),
    )


def fail_summary(state: SessionState, command: GiveUpSummary) -> NewEvents:
    """Record why there is no summary, and start the next call without it."""
    attempt, fault = command.attempt, command.fault
    ended = build_attempt_ended(
        attempt, EndAttempt(attempt, "failed", command.spent, "release", command.fault)
    )
    opened = find_claimed_turn(state, attempt)
    if opened is None or opened.summing is None:
        return (ended,)
    failed = _build_summary_failed(opened, opened.summing, fault.code, fault.detail)
    return (ended, failed, start_next_call(opened))


def _build_summary_outcome(
    state: SessionState, opened: OpenTurn, summing: PendingSummary, command: RecordSummary
) -> HistorySummarised | SummaryFailed:
    text = command.text
    if summing.withdrawn:
        return _build_summary_failed(opened, summing, "withdrawn", "a turn it tells of was taken back meanwhile")
    if command.finish not in {"stop", "length"} or not text.strip():
        return _build_summary_failed(opened, summing, "empty", f"the model ended with {command.finish}")
    if len(text) >= summing.characters:
        detail = f"{len(text)} characters for {summing.characters}"
        return _build_summary_failed(opened, summing, "no-shorter", detail)
    return HistorySummarised(
        turn=opened.turn,
        call=command.attempt.call,
        view=summing.view,
        summary=PlainText(text=text),
        turns=summing.turns,
        former=summing.former,
        phases=_collect_phases(state, summing),
        inputs=opened.context.digest if opened.context else "",
        model=command.model,
        cost=command.spent.cost,
    )


def _build_summary_failed(opened: OpenTurn, summing: PendingSummary, code: str, detail: str) -> SummaryFailed:
    return SummaryFailed(turn=opened.turn, view=summing.view, code=code, detail=detail)


def _collect_phases(state: SessionState, summing: PendingSummary) -> tuple[str, ...]:
    """Collect the phases of the covered turns, of the absorbed summary, and the current phase.

    The prompt of the summary call includes layers of the current phase, so its text belongs to that
    phase as well.
    """
    former = (each.phases for each in state.summaries if each.sequence == summing.former)
    settled = [(ref.turn, ref.turn, ref.phase) for ref in state.turns]
    settled += [(run.first, run.last, run.phase) for run in state.earlier]
    told = {
        phase
        for first, last, phase in settled
        for each in summing.turns
        if first <= each.last and each.first <= last
    }
    return tuple(sorted(filter(None, {*told, *chain.from_iterable(former), state.phase})))
