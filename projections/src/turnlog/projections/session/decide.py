"""The rules: what a command leads to in a session as it stands.

The answer is the events to append, none where the command has nothing left to do, or
`Refused` with the field at fault and the way out. Time arrives as an argument; nothing in here
reads a clock, draws a number or waits.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, assert_never

from turnlog.events.call import (
    AttemptEnded,
    AttemptStarted,
    CallCompleted,
    ContextAssembled,
    Cost,
    Usage,
)
from turnlog.events.content import Plain
from turnlog.events.errors import Refused
from turnlog.events.kinds import KnownEvent
from turnlog.events.prompt import PromptsSnapshotted
from turnlog.events.redaction import ReplyRedacted
from turnlog.events.session import SessionClosed, SessionOpened
from turnlog.events.turn import (
    TurnCancelled,
    TurnCompleted,
    TurnExcluded,
    TurnFailed,
    TurnQueued,
    TurnReleased,
    TurnRestored,
    TurnSubmitted,
)
from turnlog.projections.blueprint.schema import Policies
from turnlog.projections.session.commands import (
    Attempt,
    CancelTurn,
    ClaimTurn,
    CloseSession,
    Command,
    CompleteTurn,
    EndAttempt,
    ExcludeTurn,
    FixContext,
    OpenSession,
    RedactReply,
    RestoreTurn,
    SnapshotPrompts,
    Spent,
    SubmitTurn,
)
from turnlog.projections.session.state import OpenTurn, Run, SessionState, TurnRef
from turnlog.projections.session.turns import status_of

Events = tuple[KnownEvent, ...]

UNKNOWN: Final = Spent(usage=Usage(known="unknown"), cost=Cost(price="unknown", table="none"))
"""What is recorded of an attempt nobody can ask any more; never zero."""


def decide(state: SessionState | None, command: Command, at: datetime) -> Events:
    """Give the events a command leads to; raises `Refused` when a rule forbids it."""
    if isinstance(command, OpenSession):
        return _open(state, command)
    if state is None:
        raise Refused("unknown-session", "there is no such session", field="session")
    match command:
        case SubmitTurn():
            return _submit(state, command)
        case CancelTurn():
            return _cancel(state, command)
        case CloseSession():
            return _close(state, command)
        case ExcludeTurn() | RestoreTurn():
            return _mark(state, command)
        case RedactReply():
            return _redact(state, command)
        case ClaimTurn():
            return _claim(state, command, at)
        case SnapshotPrompts():
            return _snapshot(state, command)
        case FixContext():
            return _fix(state, command)
        case CompleteTurn():
            return _complete(state, command)
        case EndAttempt():
            return _end(state, command)
        case _ as never:
            assert_never(never)


def overdue(opened: OpenTurn, policies: Policies, at: datetime) -> bool:
    """Tell whether a turn is past its deadline, which runs from its release."""
    released = datetime.fromisoformat(opened.released_at)
    return at >= released + timedelta(seconds=policies.deadline_seconds)


def current(state: SessionState, attempt: Attempt) -> OpenTurn | None:
    """Give the open turn if this attempt still speaks for it."""
    opened = state.open
    mine = opened and opened.turn == attempt.turn and opened.attempt == attempt.attempt
    return opened if mine else None


def _open(state: SessionState | None, command: OpenSession) -> Events:
    if state is not None:
        raise Refused(
            "session-exists",
            f"session {state.session} is open already",
            field="session",
            fix="leave the id out, or choose another",
        )
    return (
        SessionOpened(
            blueprint=command.blueprint,
            profile=command.profile,
            attributes=command.attributes,
            reach=command.reach,
            origin=command.origin,
        ),
    )


def _submit(state: SessionState, command: SubmitTurn) -> Events:
    if state.closed:
        raise Refused("session-closed", "the session is closed", fix="open another session")
    turn = state.submitted + 1
    said = {
        "turn": turn,
        "text": Plain(text=command.text),
        "inputs": command.inputs,
        "references": command.references,
        "meta": command.meta,
    }
    if state.open is None:
        return (TurnSubmitted.model_validate(said),)
    match command.policies.second_submit:
        case "reject":
            raise Refused(
                "turn-open",
                f"turn {state.open.turn} is not answered yet",
                fix="wait for it, or cancel it",
            )
        case "queue":
            if len(state.waiting) >= command.policies.queue_limit:
                raise Refused(
                    "queue-full",
                    f"{len(state.waiting)} turns are waiting already",
                    fix="wait until one is answered",
                )
            return (TurnQueued.model_validate(said),)
        case "interrupt":
            given_up = TurnCancelled(turn=state.open.turn, reason="interrupted")
            return (*_lost(state.open), given_up, TurnSubmitted.model_validate(said))
        case _ as never:
            assert_never(never)


def _lost(opened: OpenTurn, partial: str = "") -> Events:
    """End an attempt from outside: what it cost is unknown until its worker says more."""
    if not opened.running:
        return ()
    attempt = Attempt(opened.turn, call_of(opened), opened.attempt)
    lost = EndAttempt(attempt, "lost", UNKNOWN, "release", partial=partial)
    return (_ended(attempt, lost),)


def call_of(opened: OpenTurn) -> str:
    """Name the call an open turn is at: the one whose prompt is fixed, or the first."""
    return f"{opened.turn}.{max(1, opened.calls)}"


def _next(state: SessionState) -> Events:
    """Release the turn that waits longest, if the session is to go on."""
    if state.closed or not state.waiting:
        return ()
    return (TurnReleased(turn=state.waiting[0].turn),)


def _cancel(state: SessionState, command: CancelTurn) -> Events:
    waiting = any(waiting.turn == command.turn for waiting in state.waiting)
    if waiting and command.turn is not None:
        return (TurnCancelled(turn=command.turn, reason="cancelled"),)
    if state.open and command.turn in {None, state.open.turn}:
        given_up = TurnCancelled(turn=state.open.turn, reason="cancelled")
        return (*_lost(state.open), given_up, *_next(state))
    if command.turn is None or status_of(state, command.turn):
        raise Refused(
            "nothing-to-cancel", "no such turn is open", field="turn", fix="nothing is left to do"
        )
    raise _unknown_turn(command.turn)


def _close(state: SessionState, command: CloseSession) -> Events:
    if state.closed:
        return ()
    ended = _lost(state.open) if state.open else ()
    left = [*([state.open.turn] if state.open else []), *(w.turn for w in state.waiting)]
    cancelled = tuple(TurnCancelled(turn=turn, reason="closed") for turn in left)
    return (*ended, *cancelled, SessionClosed(reason=command.reason))


def _unknown_turn(turn: int) -> Refused:
    return Refused("unknown-turn", f"there is no turn {turn}", field="turn")


def _completed_turn(state: SessionState, turn: int) -> TurnRef | Run:
    found = status_of(state, turn)
    if found is None and 1 <= turn <= state.submitted:
        raise Refused("turn-open", f"turn {turn} is not settled", field="turn", fix="cancel it")
    if found is None:
        raise _unknown_turn(turn)
    if found.status != "completed":
        raise Refused("no-reply", f"turn {turn} was {found.status}", field="turn")
    return found


def _mark(state: SessionState, command: ExcludeTurn | RestoreTurn) -> Events:
    found = _completed_turn(state, command.turn)
    wanted = isinstance(command, ExcludeTurn)
    if found.excluded == wanted:
        return ()
    kind = TurnExcluded if wanted else TurnRestored
    return (kind(turn=command.turn),)


def _redact(state: SessionState, command: RedactReply) -> Events:
    found = _completed_turn(state, command.turn)
    if found.redacted:
        raise Refused("already-redacted", f"the reply of turn {command.turn} is withheld already")
    return (
        ReplyRedacted(
            turn=command.turn,
            reason=command.reason,
            rule=command.rule,
            replacement=Plain(text=command.replacement),
        ),
    )


def _claim(state: SessionState, command: ClaimTurn, at: datetime) -> Events:
    opened = state.open
    if opened is None or opened.turn != command.turn:
        return ()
    if overdue(opened, command.policies, at):
        return _fail(state, opened, "deadline", "the turn was not answered in time")
    if opened.attempt >= command.policies.max_claims:
        detail = f"{opened.attempt} workers claimed the turn, none answered it"
        return _fail(state, opened, "claims-exhausted", detail)
    return (*_lost(opened, command.partial), _started(opened, command.worker))


def _started(opened: OpenTurn, worker: str) -> AttemptStarted:
    return AttemptStarted(
        turn=opened.turn, call=call_of(opened), attempt=opened.attempt + 1, worker=worker
    )


def _fail(state: SessionState, opened: OpenTurn, code: str, detail: str) -> Events:
    failed = TurnFailed(turn=opened.turn, code=code, detail=detail, retryable=True)
    return (*_lost(opened), failed, *_next(state))


def _snapshot(state: SessionState, command: SnapshotPrompts) -> Events:
    if current(state, command.attempt) is None or command.provider in state.prompts:
        return ()
    return (PromptsSnapshotted(provider=command.provider, layers=command.layers),)


def _fix(state: SessionState, command: FixContext) -> Events:
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
        ),
    )


def _complete(state: SessionState, command: CompleteTurn) -> Events:
    attempt, text = command.attempt, Plain(text=command.text)
    if current(state, attempt) is None:
        superseded = EndAttempt(
            attempt, "cancelled", command.spent, "release", partial=command.text
        )
        return (_ended(attempt, superseded),)
    ended = AttemptEnded(
        turn=attempt.turn,
        call=attempt.call,
        attempt=attempt.attempt,
        outcome="answered",
        usage=command.spent.usage,
        cost=command.spent.cost,
        timings=command.spent.timings,
    )
    answered = CallCompleted(
        turn=attempt.turn,
        call=attempt.call,
        attempt=attempt.attempt,
        finish=command.finish,
        digest=text.digest,
        characters=text.characters,
    )
    completed = TurnCompleted(
        turn=attempt.turn, call=attempt.call, text=text, finish=command.finish
    )
    return (ended, answered, completed, *_next(state))


def _ended(attempt: Attempt, command: EndAttempt) -> AttemptEnded:
    return AttemptEnded(
        turn=attempt.turn,
        call=attempt.call,
        attempt=attempt.attempt,
        outcome=command.outcome,
        usage=command.spent.usage,
        cost=command.spent.cost,
        timings=command.spent.timings,
        fault=command.fault,
        partial=Plain(text=command.partial) if command.partial else None,
    )


def _end(state: SessionState, command: EndAttempt) -> Events:
    ended = _ended(command.attempt, command)
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
            return (ended, failed, *_next(state))
        case _ as never:
            assert_never(never)
