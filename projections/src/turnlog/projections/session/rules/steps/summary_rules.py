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
from itertools import chain
from typing import Final, Literal, assert_never

from turnlog.events.content import Digest, PlainText
from turnlog.events.errors import Refused
from turnlog.events.model.memory_events import (
    HistorySummarised,
    MemoryPurged,
    SummaryBegun,
    SummaryFailed,
    SummaryUndone,
)
from turnlog.projections.session.commands import (
    BeginSummary,
    GiveUpSummary,
    MemoryCommand,
    PurgeMemory,
    RecordSummary,
    UndoSummary,
)
from turnlog.projections.session.open_turn import (
    CurrentCall,
    OpenTurn,
    PromptedCall,
    UnpromptedCall,
)
from turnlog.projections.session.rules.admission_rules import (
    require_no_open_turn,
    require_open_session,
)
from turnlog.projections.session.rules.attempt_events import (
    NewEvents,
    end_side_call,
    find_claimed_turn,
    record_answer,
    record_superseded_attempt,
    start_next_call,
)
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_summaries import PendingSummary, contains_turn

WITHDRAWN_DETAIL: Final = "a turn it tells of was taken back meanwhile"


def decide_memory(state: SessionState, command: MemoryCommand) -> NewEvents:
    """Return the events of a memory command."""
    match command:
        case BeginSummary():
            return begin_summary(state, command)
        case RecordSummary():
            return record_summary(state, command)
        case GiveUpSummary():
            return fail_summary(state, command)
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
        detail = f"event {sequence} holds no active summary"
        raise Refused(
            "unknown-summary", detail, field="sequence", fix="see `/summaries` for the active ones"
        )
    require_no_open_turn(state)
    by = next((each for each in state.summaries if each.former == found.sequence), None)
    if by is not None:
        detail = f"the summary of event {by.sequence} includes it"
        raise Refused("summary-taken-in", detail, field="sequence", fix="undo that one first")
    if found.former and not any(each.sequence == found.former for each in state.summaries):
        detail = f"the summary before it, of event {found.former}, is too old to be restored"
        raise Refused("summary-too-old", detail, field="sequence", fix="exclude a turn it covers")
    return (SummaryUndone(sequence=found.sequence, view=found.view),)


def purge_memory(state: SessionState) -> NewEvents:
    """Hide all turns so far from windows; nothing where no new turn came since the last purge."""
    require_open_session(state)
    require_no_open_turn(state)
    if state.purged == state.submitted:
        return ()
    return (MemoryPurged(upto=state.submitted),)


def undo_summaries_of_turn(
    state: SessionState, turn: int, cause: Literal["excluded", "redacted"]
) -> Iterator[SummaryUndone]:
    """Undo every summary that covers a turn, the latest first."""
    for each in reversed(state.summaries):
        if contains_turn(each.turns, turn):
            yield SummaryUndone(sequence=each.sequence, view=each.view, cause=cause, turn=turn)


def begin_summary(state: SessionState, command: BeginSummary) -> NewEvents:
    """Let the open turn wait for a summary, once for each view.

    Nothing where a turn it was to cover was excluded meanwhile: its prompt would lack that turn.
    """
    opened, begun = find_claimed_turn(state, command.attempt), command.begun
    if opened is None or opened.summing or begun.view in opened.summed:
        return ()
    return () if _covers_excluded_turn(state, begun) else (begun,)


def _covers_excluded_turn(state: SessionState, begun: SummaryBegun) -> bool:
    excluded = [(ref.turn, ref.turn) for ref in state.turns if ref.excluded]
    excluded += [(run.first, run.last) for run in state.earlier if run.excluded]
    return any(
        first <= covered.last and covered.first <= last
        for covered in begun.turns
        for first, last in excluded
    )


def record_summary(state: SessionState, command: RecordSummary) -> NewEvents:
    """Record the summary and start the next call; for a superseded worker record only the cost."""
    attempt, text = command.attempt, PlainText(text=command.text)
    opened = find_claimed_turn(state, attempt)
    if opened is None or opened.summing is None:
        return record_superseded_attempt(attempt, command.spent, reasoning=command.reasoning)
    return (
        record_answer(
            attempt=attempt,
            spent=command.spent,
            text=text,
            finish=command.finish,
            store_text=True,
            reasoning=command.reasoning,
        ),
        _build_summary_outcome(state, opened, opened.summing, command),
        start_next_call(opened),
    )


def fail_summary(state: SessionState, command: GiveUpSummary) -> NewEvents:
    """Record why there is no summary, and start the next call without it."""
    fault, ended = command.fault, end_side_call(command)
    opened = find_claimed_turn(state, command.attempt)
    if opened is None or opened.summing is None:
        return (ended,)
    failed = _build_summary_failed(opened, opened.summing, fault.code, fault.detail)
    return (ended, failed, start_next_call(opened))


def _build_summary_outcome(
    state: SessionState, opened: OpenTurn, pending: PendingSummary, command: RecordSummary
) -> HistorySummarised | SummaryFailed:
    text = command.text
    if pending.withdrawn:
        return _build_summary_failed(opened, pending, "withdrawn", WITHDRAWN_DETAIL)
    if command.finish not in {"stop", "length"} or not text.strip():
        return _build_summary_failed(
            opened, pending, "empty", f"the model ended with {command.finish}"
        )
    if len(text) >= pending.characters:
        detail = f"{len(text)} characters for {pending.characters}"
        return _build_summary_failed(opened, pending, "no-shorter", detail)
    return HistorySummarised(
        turn=opened.turn,
        call=command.attempt.call,
        view=pending.view,
        summary=PlainText(text=text),
        turns=pending.turns,
        former=pending.former,
        phases=_collect_phases(state, pending),
        inputs=_find_request_digest(opened.call),
        model=command.model,
        cost=command.spent.cost,
    )


def _find_request_digest(call: CurrentCall) -> Digest:
    """Return the digest of the request that a summary answers; empty where none is recorded."""
    match call:
        case PromptedCall(manifest=manifest):
            return manifest.digest
        case UnpromptedCall():
            return ""
        case _ as never:
            assert_never(never)


def _build_summary_failed(
    opened: OpenTurn, pending: PendingSummary, code: str, detail: str
) -> SummaryFailed:
    return SummaryFailed(turn=opened.turn, view=pending.view, code=code, detail=detail)


def _collect_phases(state: SessionState, pending: PendingSummary) -> tuple[str, ...]:
    """Collect the phases of the covered turns, of the absorbed summary, and the current phase.

    The prompt of the summary call includes layers of the current phase, so its text belongs to that
    phase as well.
    """
    former = (each.phases for each in state.summaries if each.sequence == pending.former)
    settled = [(ref.turn, ref.turn, ref.phase) for ref in state.turns]
    settled += [(run.first, run.last, run.phase) for run in state.earlier]
    phases = {
        phase
        for first, last, phase in settled
        for each in pending.turns
        if first <= each.last and each.first <= last
    }
    return tuple(sorted(filter(None, {*phases, *chain.from_iterable(former), state.phase})))
