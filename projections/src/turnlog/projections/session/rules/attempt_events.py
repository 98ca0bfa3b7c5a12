"""Helpers that the rules share: who holds the claim of a turn, and how attempts and turns end.

An attempt that is ended by anyone but its worker has an unknown cost. Its worker may report the
cost later.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from turnlog.events.content import Digest, PlainText, build_optional_text
from turnlog.events.model.attempt_figures import AttemptCost, AttemptUsage, TokenUsage
from turnlog.events.model.call_events import (
    AttemptEnded,
    AttemptFault,
    AttemptResult,
    AttemptStarted,
    CallCompleted,
)
from turnlog.events.model.content_parts import MediaPart
from turnlog.events.model.turn_events import FinishReason, TurnReleased
from turnlog.events.registry import KnownEvent
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import AttemptRef, GiveUpSideCall
from turnlog.projections.session.open_turn import AnswerRejection, OpenTurn
from turnlog.projections.session.state import SessionState

NewEvents = tuple[KnownEvent, ...]

UNKNOWN_USAGE: Final = AttemptUsage(
    usage=TokenUsage(known="unknown"), cost=AttemptCost(price="unknown", table="none")
)
"""Usage and cost of an attempt that can no longer report them; never zero."""


def is_overdue(opened: OpenTurn, policies: Policies, at: datetime) -> bool:
    """Return whether a turn is past its deadline, which counts from its release.

    Not asked of one that waits for a person or a child; these waits have deadlines of their own.
    """
    released = datetime.fromisoformat(opened.released_at)
    return at >= released + timedelta(seconds=policies.deadline_seconds)


def find_claimed_turn(state: SessionState, attempt: AttemptRef) -> OpenTurn | None:
    """Return the open turn if this attempt still holds its claim, else None."""
    opened = state.open
    mine = opened and opened.turn == attempt.turn and opened.attempt == attempt.attempt
    return opened if mine else None


def end_lost_attempt(opened: OpenTurn, partial: str = "") -> NewEvents:
    """End a running attempt whose worker is lost, with unknown cost."""
    if not opened.is_running:
        return ()
    attempt = get_attempt_ref(opened)
    return (build_attempt_ended(attempt, "lost", UNKNOWN_USAGE, partial=partial),)


def get_attempt_ref(opened: OpenTurn) -> AttemptRef:
    """Return the latest attempt of a turn, at its current call."""
    return AttemptRef(opened.turn, opened.call_id, opened.attempt)


def release_next_turn(state: SessionState) -> NewEvents:
    """Release the oldest waiting turn, unless the session is closed."""
    if state.closed or not state.waiting:
        return ()
    return (TurnReleased(turn=state.waiting[0].turn),)


def record_superseded_attempt(
    attempt: AttemptRef,
    spent: AttemptUsage,
    *,
    shown: str = "",
    reasoning: str = "",
    parts: tuple[MediaPart, ...] = (),
) -> NewEvents:
    """Record what a superseded attempt has shown and what it cost, and nothing else."""
    ended = build_attempt_ended(
        attempt=attempt,
        outcome="cancelled",
        spent=spent,
        partial=shown,
        reasoning=reasoning,
        parts=tuple(each for each in parts if each.at < len(shown)),
    )
    return (ended,)


def record_answer(
    attempt: AttemptRef,
    spent: AttemptUsage,
    text: PlainText,
    finish: FinishReason,
    *,
    store_text: bool,
    reasoning: str,
    repairs: tuple[str, ...] = (),
    withheld: Digest | None = None,
) -> CallCompleted:
    """End an attempt with an answer, or with one that is `withheld` in the blob of this digest.

    `store_text` keeps the answer in the call's own event. It is needed where no other event holds
    it.
    """
    return CallCompleted(
        turn=attempt.turn,
        call=attempt.call,
        attempt=attempt.attempt,
        finish=finish,
        digest=withheld or text.digest,
        characters=text.characters,
        text=text if store_text else None,
        repairs=repairs,
        spent=spent,
        reasoning=build_optional_text(reasoning),
    )


def start_next_call(opened: OpenTurn) -> AttemptStarted:
    """Start the next call of an open turn under the claim of the same worker."""
    return AttemptStarted(
        turn=opened.turn,
        call=f"{opened.turn}.{opened.call.next_number}",
        attempt=opened.attempt + 1,
        worker=opened.lease.worker,
    )


def build_attempt_ended(
    attempt: AttemptRef,
    outcome: AttemptResult,
    spent: AttemptUsage,
    fault: AttemptFault | None = None,
    partial: str = "",
    rejection: AnswerRejection | None = None,
    reasoning: str = "",
    parts: tuple[MediaPart, ...] = (),
) -> AttemptEnded:
    """Return the event that ends an attempt, with what it cost."""
    return AttemptEnded(
        turn=attempt.turn,
        call=attempt.call,
        attempt=attempt.attempt,
        outcome=outcome,
        usage=spent.usage,
        cost=spent.cost,
        timings=spent.timings,
        fault=fault,
        partial=build_optional_text(partial),
        response_id=spent.response_id,
        ratings=spent.ratings,
        finish_sent=spent.finish_sent,
        rejected=PlainText(text=rejection.text) if rejection else None,
        correction=rejection.correction if rejection else "",
        reasoning=build_optional_text(reasoning),
        parts=parts,
    )


def end_side_call(command: GiveUpSideCall) -> AttemptEnded:
    """Return the event that ends the attempt at a call which its turn can do without."""
    return build_attempt_ended(
        attempt=command.attempt,
        outcome="failed",
        spent=command.spent,
        fault=command.fault,
        reasoning=command.reasoning,
    )
