"""Helpers that the rules share: who holds the claim of a turn, and how attempts and turns end.

An attempt that is ended by anyone but its worker has an unknown cost. Its worker may report the
cost later.
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
"""Usage and cost of an attempt that can no longer report them; never zero."""


def overdue(opened: OpenTurn, policies: Policies, at: datetime) -> bool:
    """Return whether a turn is past its deadline, which counts from its release."""
    released = datetime.fromisoformat(opened.released_at)
    return at >= released + timedelta(seconds=policies.deadline_seconds)


def current(state: SessionState, attempt: Attempt) -> OpenTurn | None:
    """Return the open turn if this attempt still holds its claim, else None."""
    opened = state.open
    mine = opened and opened.turn == attempt.turn and opened.attempt == attempt.attempt
    return opened if mine else None


def ended_from_outside(opened: OpenTurn, partial: str = "") -> Events:
    """End a running attempt whose worker is lost, with unknown cost."""
    if not opened.running:
        return ()
    attempt = Attempt(opened.turn, call_of(opened), opened.attempt)
    lost = EndAttempt(attempt, "lost", UNKNOWN, "release", partial=partial)
    return (attempt_ended(attempt, lost),)


def call_of(opened: OpenTurn) -> str:
    """Return the id of the turn's current call: the latest with a recorded prompt, or the next."""
    return f"{opened.turn}.{max(opened.calls, opened.answered + 1)}"


def released_next(state: SessionState) -> Events:
    """Release the oldest waiting turn, unless the session is closed."""
    if state.closed or not state.waiting:
        return ()
    return (TurnReleased(turn=state.waiting[0].turn),)


def superseded(attempt: Attempt, spent: Spent, partial: str) -> Events:
    """Record the cost of a superseded attempt, and nothing else."""
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
    """End an attempt with an answer.

    `store_text` keeps the answer in the call's own event. It is needed where no other event holds
    it.
    """
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
    """Start the next call of an open turn under the claim of the same worker."""
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
