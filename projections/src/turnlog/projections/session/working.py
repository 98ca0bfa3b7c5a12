"""Rules for workers: claim a turn, record prompts and answers, complete or fail the turn.

A worker whose claim was superseded may still report what its attempt cost, and nothing else.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from turnlog.events.call import AttemptStarted, ContextAssembled
from turnlog.events.content import PlainText
from turnlog.events.prompt import PromptsSnapshotted
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.turn import TurnCancelled, TurnCompleted, TurnFailed, TurnSubmitted
from turnlog.projections.session.attempts import (
    NewEvents,
    record_answer,
    build_attempt_ended,
    get_call_id,
    find_claimed_turn,
    end_lost_attempt,
    is_overdue,
    release_next_turn,
    record_superseded_attempt,
)
from turnlog.projections.session.commands import (
    ClaimTurn,
    CompleteTurn,
    EndAttempt,
    FixContext,
    SnapshotPrompts,
)
from turnlog.projections.session.phasing import PhaseTransition, enter_phase, build_exchange, find_transition, record_signal_tools
from turnlog.projections.session.references import record_reference
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.session.tooling import settle_pending_tools


def claim_turn(state: SessionState, command: ClaimTurn, at: datetime) -> NewEvents:
    opened = state.open
    if opened is None or opened.turn != command.turn:
        return ()
    if is_overdue(opened, command.policies, at):
        return _fail_turn(state, opened, "deadline", "the turn was not answered in time")
    tried = opened.attempt - opened.begun
    if tried >= command.policies.max_claims:
        detail = f"{tried} workers claimed the turn, none answered it"
        return _fail_turn(state, opened, "claims-exhausted", detail)
    return (*end_lost_attempt(opened, command.partial), _start_attempt(opened, command.worker))


def _start_attempt(opened: OpenTurn, worker: str) -> AttemptStarted:
    return AttemptStarted(
        turn=opened.turn, call=get_call_id(opened), attempt=opened.attempt + 1, worker=worker
    )


def _fail_turn(state: SessionState, opened: OpenTurn, code: str, detail: str) -> NewEvents:
    failed = TurnFailed(turn=opened.turn, code=code, detail=detail, retryable=True)
    return (*end_lost_attempt(opened), *settle_pending_tools(opened), failed, *release_next_turn(state))


def snapshot_prompts(state: SessionState, command: SnapshotPrompts) -> NewEvents:
    if find_claimed_turn(state, command.attempt) is None or command.provider in state.prompts:
        return ()
    return (PromptsSnapshotted(provider=command.provider, layers=command.layers),)


def record_context(state: SessionState, command: FixContext) -> NewEvents:
    if find_claimed_turn(state, command.attempt) is None:
        return ()
    return (
        ContextAssembled(
            turn=command.attempt.turn,
            call=command.attempt.call,
            model=command.model,
            parameters=command.parameters,
            manifest=command.manifest,
            supersedes=command.supersedes,
            profile=state.profile,
        ),
    )


def complete_turn(state: SessionState, command: CompleteTurn) -> NewEvents:
    attempt, text = command.attempt, PlainText(text=command.raw or command.text)
    if find_claimed_turn(state, attempt) is None:
        return record_superseded_attempt(attempt, command.spent, "" if command.withheld else text.text)
    spoken = record_answer(
        attempt,
        command.spent,
        text,
        command.finish,
        store_text=command.raw is not None,
        repairs=command.repairs,
    )
    step = find_transition(state, command)
    replied = _build_reply_event(state, command, step)
    moved = enter_phase(state, command.phases, step, attempt.turn) if step and command.phases else ()
    # A debrief turn goes before the waiting turns, and leaving an isolated phase cancels them. In
    # both cases no waiting turn is released.
    taken = any(isinstance(event, TurnSubmitted | TurnCancelled) for event in moved)
    released = () if taken else release_next_turn(state)
    about = () if command.withheld else record_reference(state, command.references)
    return (*spoken, *record_signal_tools(state, command), replied, *about, *moved, *released)


def _build_reply_event(
    state: SessionState, command: CompleteTurn, step: PhaseTransition | None
) -> TurnCompleted | ReplyRedacted:
    turn, withheld = command.attempt.turn, command.withheld
    if withheld:
        return ReplyRedacted(
            turn=turn,
            reason=withheld.reason,
            rule=withheld.rule,
            replacement=PlainText(text=withheld.replacement),
            withheld=withheld.blob,
        )
    return TurnCompleted(
        turn=turn,
        call=command.attempt.call,
        text=PlainText(text=command.text),
        finish=command.finish,
        exchange=build_exchange(state, command.phases, step),
        work=None if command.work is None else PlainText(text=command.work),
    )


def end_attempt(state: SessionState, command: EndAttempt) -> NewEvents:
    ended = build_attempt_ended(command.attempt, command)
    opened = find_claimed_turn(state, command.attempt)
    if opened is None:
        return (ended,)
    match command.then:
        case "retry":
            return (ended, _start_attempt(opened, opened.worker))
        case "release":
            return (ended,)
        case "fail":
            fault = command.fault
            failed = TurnFailed(
                turn=opened.turn,
                code=fault.code if fault else "failed",
                detail=fault.detail if fault else "the attempt gave no answer",
                retryable=fault.retryable if fault else True,
            )
            return (ended, *settle_pending_tools(opened), failed, *release_next_turn(state))
        case _ as never:
            assert_never(never)
