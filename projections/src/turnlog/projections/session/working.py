"""Rules for workers: claim a turn, record prompts and answers, complete or fail the turn.

A worker whose claim was superseded may still report what its attempt cost, and nothing else.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from turnlog.events.call import AttemptStarted, ContextAssembled
from turnlog.events.content import Plain
from turnlog.events.prompt import PromptsSnapshotted
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.turn import TurnCancelled, TurnCompleted, TurnFailed, TurnSubmitted
from turnlog.projections.session.attempts import (
    Events,
    answered,
    attempt_ended,
    call_of,
    current,
    ended_from_outside,
    overdue,
    released_next,
    superseded,
)
from turnlog.projections.session.commands import (
    ClaimTurn,
    CompleteTurn,
    EndAttempt,
    FixContext,
    SnapshotPrompts,
)
from turnlog.projections.session.phasing import Step, entered, exchange, stepped, tooled
from turnlog.projections.session.references import updated
from turnlog.projections.session.state import OpenTurn, SessionState
from turnlog.projections.session.tooling import left_behind


def claim(state: SessionState, command: ClaimTurn, at: datetime) -> Events:
    opened = state.open
    if opened is None or opened.turn != command.turn:
        return ()
    if overdue(opened, command.policies, at):
        return _fail(state, opened, "deadline", "the turn was not answered in time")
    tried = opened.attempt - opened.begun
    if tried >= command.policies.max_claims:
        detail = f"{tried} workers claimed the turn, none answered it"
        return _fail(state, opened, "claims-exhausted", detail)
    return (*ended_from_outside(opened, command.partial), _started(opened, command.worker))


def _started(opened: OpenTurn, worker: str) -> AttemptStarted:
    return AttemptStarted(
        turn=opened.turn, call=call_of(opened), attempt=opened.attempt + 1, worker=worker
    )


def _fail(state: SessionState, opened: OpenTurn, code: str, detail: str) -> Events:
    failed = TurnFailed(turn=opened.turn, code=code, detail=detail, retryable=True)
    return (*ended_from_outside(opened), *left_behind(opened), failed, *released_next(state))


def snapshot(state: SessionState, command: SnapshotPrompts) -> Events:
    if current(state, command.attempt) is None or command.provider in state.prompts:
        return ()
    return (PromptsSnapshotted(provider=command.provider, layers=command.layers),)


def fix(state: SessionState, command: FixContext) -> Events:
    if current(state, command.attempt) is None:
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


def complete(state: SessionState, command: CompleteTurn) -> Events:
    attempt, text = command.attempt, Plain(text=command.raw or command.text)
    if current(state, attempt) is None:
        return superseded(attempt, command.spent, "" if command.withheld else text.text)
    spoken = answered(
        attempt,
        command.spent,
        text,
        command.finish,
        kept=command.raw is not None,
        repairs=command.repairs,
    )
    step = stepped(state, command)
    replied = _replied(state, command, step)
    moved = entered(state, command.phases, step, attempt.turn) if step and command.phases else ()
    # A debrief turn goes before the waiting turns, and leaving an isolated phase cancels them. In
    # both cases no waiting turn is released.
    taken = any(isinstance(event, TurnSubmitted | TurnCancelled) for event in moved)
    released = () if taken else released_next(state)
    about = () if command.withheld else updated(state, command.references)
    return (*spoken, *tooled(state, command), replied, *about, *moved, *released)


def _replied(
    state: SessionState, command: CompleteTurn, step: Step | None
) -> TurnCompleted | ReplyRedacted:
    turn, withheld = command.attempt.turn, command.withheld
    if withheld:
        return ReplyRedacted(
            turn=turn,
            reason=withheld.reason,
            rule=withheld.rule,
            replacement=Plain(text=withheld.replacement),
            withheld=withheld.blob,
        )
    return TurnCompleted(
        turn=turn,
        call=command.attempt.call,
        text=Plain(text=command.text),
        finish=command.finish,
        exchange=exchange(state, command.phases, step),
        work=None if command.work is None else Plain(text=command.work),
    )


def end(state: SessionState, command: EndAttempt) -> Events:
    ended = attempt_ended(command.attempt, command)
    opened = current(state, command.attempt)
    if opened is None:
        return (ended,)
    match command.then:
        case "retry":
            return (ended, _started(opened, opened.worker))
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
            return (ended, *left_behind(opened), failed, *released_next(state))
        case _ as never:
            assert_never(never)
