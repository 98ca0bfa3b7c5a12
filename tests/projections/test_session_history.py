from __future__ import annotations

from typing import Literal

from turnlog.events.content import PlainText, encode_canonical
from turnlog.events.model.call_events import AttemptFault
from turnlog.events.model.turn_events import TurnFailed
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import (
    AnswerCall,
    AttemptRef,
    CancelTurn,
    CloseSession,
    EndAttempt,
    ExcludeTurn,
    RestoreTurn,
)
from turnlog.projections.session.rules.outcome_commands import NOTHING_SPENT
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.turn_commands import RedactReply
from turnlog.projections.session_views.session_history import (
    HistoryTurn,
    apply_redactions,
    build_history,
)
from turnlog.projections.testing import (
    ScenarioStep,
    SessionScenario,
    build_exchange,
    claim_turn,
    complete_turn,
    get_attempt,
    given,
    open_session,
    submit_turn,
)

REDACT = RedactReply(1, "a secret", "operator", "(Withheld.)")


def read_history(*steps: ScenarioStep) -> tuple[HistoryTurn, ...]:
    return given(open_session(), *steps).apply_projection(build_history)


def read_single_turn(*steps: ScenarioStep) -> HistoryTurn:
    (turn,) = read_history(*steps)
    return turn


def test_a_session_without_turns_has_no_history() -> None:
    assert SessionScenario().apply_projection(build_history) == ()
    assert read_history() == ()


def test_completed_turn_is_listed_with_its_text_reply_and_times() -> None:
    assert read_single_turn(*build_exchange("Hi", "Hello")) == HistoryTurn(
        turn=1,
        status="completed",
        text=PlainText(text="Hi"),
        submitted_at="2026-01-01T00:00:01.000000Z",
        sequence=2,
        reply=PlainText(text="Hello"),
        finish="stop",
        call="1.1",
        settled_at="2026-01-01T00:00:03.000000Z",
        attempt=1,
    )


def test_a_turn_is_queued_then_open_then_completed() -> None:
    waiting = (submit_turn("One"), submit_turn("Two"))
    assert [turn.status for turn in read_history(*waiting)] == ["open", "queued"]
    released = (*waiting, claim_turn(), CancelTurn())
    assert [turn.status for turn in read_history(*released)] == ["cancelled", "open"]


def test_failed_turn_is_listed_with_its_reason() -> None:
    failed = TurnFailed(turn=1, code="deadline", detail="late", retryable=True)
    turn = read_single_turn(submit_turn("Hi"), failed)
    assert (turn.status, turn.reason, turn.reply) == ("failed", "deadline", None)
    assert turn.settled_at == "2026-01-01T00:00:02.000000Z"


def test_cancelled_turn_is_listed_with_its_reason() -> None:
    stop = submit_turn("Stop", Policies(second_submit="interrupt"))
    assert [
        turn.reason for turn in read_history(submit_turn("Hi"), stop, CloseSession("done"))
    ] == [
        "interrupted",
        "closed",
    ]


def end_attempt(
    attempt: int, then: Literal["retry", "fail", "release"], partial: str = "Half a"
) -> EndAttempt:
    return EndAttempt(
        attempt=AttemptRef(1, "1.1", attempt),
        outcome="failed",
        spent=NOTHING_SPENT,
        then=then,
        fault=AttemptFault(code="incomplete", detail="cut", retryable=True),
        partial=partial,
    )


CLAIMED = (submit_turn("Hi"), claim_turn())


def test_cancelled_turn_keeps_what_its_attempt_had_shown() -> None:
    turn = read_single_turn(*CLAIMED, CancelTurn(), end_attempt(1, "release"))
    assert (turn.status, turn.reply, turn.partial) == (
        "cancelled",
        None,
        PlainText(text="Half a"),
    )


def test_failed_turn_keeps_what_its_last_attempt_had_shown() -> None:
    retried = (*CLAIMED, end_attempt(1, "retry", "First"))
    turn = read_single_turn(*retried, end_attempt(2, "fail", "Second"))
    assert (turn.status, turn.partial) == ("failed", PlainText(text="Second"))
    nothing_shown = read_single_turn(*retried, end_attempt(2, "fail", ""))
    assert nothing_shown.partial is None


def test_partial_of_an_abandoned_attempt_is_dropped_when_the_next_one_starts() -> None:
    retried = (*CLAIMED, end_attempt(1, "retry"))
    assert read_single_turn(*retried).partial is None
    assert read_single_turn(*retried, complete_turn("Whole")).partial is None
    late = read_single_turn(*CLAIMED, claim_turn("w2"), CancelTurn(), end_attempt(1, "release"))
    assert (late.status, late.partial) == ("cancelled", None)


def test_completed_turn_has_no_partial_whatever_ends_later() -> None:
    late = end_attempt(1, "release")
    assert read_single_turn(*build_exchange("Hi", "Hello"), late).partial is None
    redacted = read_single_turn(*build_exchange("Hi", "Hello"), REDACT, late)
    assert (redacted.redacted, redacted.partial) == (True, None)


def test_excluded_turn_is_marked_and_restored_turn_is_unchanged() -> None:
    talked = build_exchange("Hi", "Hello")
    excluded = read_single_turn(*talked, ExcludeTurn(1))
    assert (excluded.excluded, excluded.reply) == (True, PlainText(text="Hello"))
    assert read_single_turn(*talked, ExcludeTurn(1), RestoreTurn(1)) == read_single_turn(*talked)


def test_history_shows_the_replacement_instead_of_a_redacted_reply() -> None:
    turn = read_single_turn(*build_exchange("Hi", "The key is 7."), REDACT)
    assert (turn.status, turn.redacted, turn.reason) == ("completed", True, "a secret")
    assert turn.reply == PlainText(text="(Withheld.)")
    assert "key" not in repr(turn)


def test_later_redaction_does_not_change_the_settling_time() -> None:
    talked = build_exchange("Hi", "Hello")
    assert read_single_turn(*talked, REDACT).settled_at == read_single_turn(*talked).settled_at


def test_turns_are_listed_in_submission_order() -> None:
    steps = (
        submit_turn("One"),
        submit_turn("Two"),
        submit_turn("Three"),
        CancelTurn(3),
        CancelTurn(1),
    )
    assert [turn.turn for turn in read_history(*steps)] == [1, 2, 3]


def test_past_of_a_turn_whose_reply_was_withheld_later_has_none_of_its_reasoning() -> None:
    said = encode_canonical({"reasoning_content": "The secret is 7."})

    def reason(state: SessionState) -> AnswerCall:
        return AnswerCall(
            attempt=get_attempt(state),
            text="A plan.",
            finish="stop",
            spent=NOTHING_SPENT,
            reasoning=said,
        )

    begun = given(open_session(), submit_turn("Hi"), claim_turn(), reason)
    before = begun.apply_projection(build_history)
    assert before[0].reasoning == PlainText(text=said)
    ended = begun.apply_steps(claim_turn("w2"), complete_turn("It is 7."), REDACT)
    (turn,) = apply_redactions(before, ended.events)
    assert (turn.status, turn.reasoning, turn.redacted) == ("open", None, True)
