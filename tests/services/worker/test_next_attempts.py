"""Which attempt a worker goes on with after it recorded the end of one."""

from __future__ import annotations

from turnlog.projections.session.commands import AnswerCall, AttemptRef
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    SessionScenario,
    claim_turn,
    given,
    open_session,
    submit_turn,
)
from turnlog.services.sessions.command_handler import CommandOutcome
from turnlog.services.worker.attempts.attempt_outcomes import find_started_attempt, find_verdict
from turnlog.services.worker.turn_delivery import DeliverySettled, DeliverySuperseded

FIRST = AttemptRef(1, "1.1", 1)

CLAIMED = given(open_session(), submit_turn("Hi"), claim_turn("w1"))


def record_first_answer(before: SessionScenario) -> CommandOutcome:
    """Return the outcome of the answer that attempt 1 gives after these steps."""
    done = before.apply_steps(
        lambda _: AnswerCall(attempt=FIRST, text="A plan.", finish="stop", spent=SAMPLE_SPENT)
    )
    assert done.state is not None
    return CommandOutcome(done.state, tuple(done.events[len(before.events) :]))


def test_worker_continues_with_the_attempt_that_its_answer_started() -> None:
    following = find_started_attempt(record_first_answer(CLAIMED))
    assert following is not None
    assert following.attempt == 2


def test_attempt_claimed_by_another_worker_is_left_to_that_worker() -> None:
    taken_over = CLAIMED.apply_steps(claim_turn("w2"))
    done = record_first_answer(taken_over)
    assert find_started_attempt(done) is None
    assert find_verdict(done.state, FIRST) == DeliverySuperseded()


def test_turn_settled_meanwhile_starts_no_further_attempt() -> None:
    settled = given(open_session()).state
    assert settled is not None
    assert find_started_attempt(CommandOutcome(settled, ())) is None
    assert find_verdict(settled, FIRST) == DeliverySettled()
