"""What the rules share: who speaks for a turn, and how an attempt or a turn is ended.

An attempt that is ended from outside cost nobody knows how much; that is recorded as unknown,
and its own worker may say more later.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from turnlog.events.call import AttemptEnded, AttemptStarted, CallCompleted, Cost, Usage
from turnlog.events.content import Plain
from turnlog.events.kinds import KnownEvent
from turnlog.events.turn import Finish, TurnReleased
from turnlog.projections.blueprint.schema import Policies
from turnlog.projections.session.commands import Attempt, EndAttempt, Spent
from turnlog.projections.session.state import OpenTurn, SessionState

Events = tuple[KnownEvent, ...]

UNKNOWN: Final = Spent(usage=Usage(known="unknown"), cost=Cost(price="unknown", table="none"))
"""What is recorded of an attempt nobody can ask any more; never zero."""


def overdue(opened: OpenTurn, policies: Policies, at: datetime) -> bool:
    """Tell whether a turn is past its deadline, which runs from its release."""
    released = datetime.fromisoformat(opened.released_at)
    return at >= released + timedelta(seconds=policies.deadline_seconds)


def current(state: SessionState, attempt: Attempt) -> OpenTurn | None:
    """Give the open turn if this attempt still speaks for it."""
    opened = state.open
    mine = opened and opened.turn == attempt.turn and opened.attempt == attempt.attempt
    return opened if mine else None


def ended_from_outside(opened: OpenTurn, partial: str = "") -> Events:
    """End an attempt from outside: what it cost is unknown until its worker says more."""
    if not opened.running:
        return ()
    attempt = Attempt(opened.turn, call_of(opened), opened.attempt)
    lost = EndAttempt(attempt, "lost", UNKNOWN, "release", partial=partial)
    return (attempt_ended(attempt, lost),)


def call_of(opened: OpenTurn) -> str:
    """Name the call an open turn is at: the one whose prompt is fixed, or the next."""
    return f"{opened.turn}.{max(opened.calls, opened.answered + 1)}"


def released_next(state: SessionState) -> Events:
    """Release the turn that waits longest, if the session is to go on."""
    if state.closed or not state.waiting:
        return ()
    return (TurnReleased(turn=state.waiting[0].turn),)


def superseded(attempt: Attempt, spent: Spent, partial: str) -> Events:
    """Record what an attempt took that no longer speaks for its turn, and nothing else of it."""
    return (
        attempt_ended(attempt, EndAttempt(attempt, "cancelled", spent, "release", partial=partial)),
    )


def answered(
    attempt: Attempt,
    spent: Spent,
    text: Plain,
    finish: Finish,
    *,
    kept: bool,
    repairs: tuple[str, ...] = (),
) -> tuple[AttemptEnded, CallCompleted]:
    """End an attempt with an answer, kept with the call where it stands nowhere else."""
    ended = AttemptEnded(
        turn=attempt.turn,
        call=attempt.call,
        attempt=attempt.attempt,
        outcome="answered",
        usage=spent.usage,
        cost=spent.cost,
        timings=spent.timings,
    )
    completed = CallCompleted(
        turn=attempt.turn,
        call=attempt.call,
        attempt=attempt.attempt,
        finish=finish,
        digest=text.digest,
        characters=text.characters,
        text=text if kept else None,
        repairs=repairs,
    )
    return ended, completed


def next_call(opened: OpenTurn) -> AttemptStarted:
    """Let the worker of an open turn go on with the call behind the one that is done."""
    return AttemptStarted(
        turn=opened.turn,
        call=f"{opened.turn}.{opened.calls + 1}",
        attempt=opened.attempt + 1,
        worker=opened.worker,
    )


def attempt_ended(attempt: Attempt, command: EndAttempt) -> AttemptEnded:
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
