from __future__ import annotations

from turnlog.events.content import PlainText
from turnlog.events.model.turn_events import TurnFailed
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.read_models.session_history import HistoryTurn, build_history
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    ExcludeTurn,
    RedactReply,
    RestoreTurn,
)
from turnlog.projections.testing import (
    ScenarioStep,
    SessionScenario,
    build_exchange,
    claim_turn,
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


def test_an_answered_turn_stands_with_its_text_its_reply_and_its_times() -> None:
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
    )


def test_a_turn_is_queued_then_open_then_completed() -> None:
    waiting = (submit_turn("One"), submit_turn("Two"))
    assert [turn.status for turn in read_history(*waiting)] == ["open", "queued"]
    released = (*waiting, claim_turn(), CancelTurn())
    assert [turn.status for turn in read_history(*released)] == ["cancelled", "open"]


def test_a_failed_turn_stands_with_its_reason() -> None:
    failed = TurnFailed(turn=1, code="deadline", detail="late", retryable=True)
    turn = read_single_turn(submit_turn("Hi"), failed)
    assert (turn.status, turn.reason, turn.reply) == ("failed", "deadline", None)
    assert turn.settled_at == "2026-01-01T00:00:02.000000Z"


def test_a_turn_that_was_given_up_says_for_what() -> None:
    stop = submit_turn("Stop", Policies(second_submit="interrupt"))
    assert [
        turn.reason for turn in read_history(submit_turn("Hi"), stop, CloseSession("done"))
    ] == [
        "interrupted",
        "closed",
    ]


def test_an_excluded_turn_stands_marked_and_a_restored_one_as_before() -> None:
    talked = build_exchange("Hi", "Hello")
    excluded = read_single_turn(*talked, ExcludeTurn(1))
    assert (excluded.excluded, excluded.reply) == (True, PlainText(text="Hello"))
    assert read_single_turn(*talked, ExcludeTurn(1), RestoreTurn(1)) == read_single_turn(*talked)


def test_a_withheld_reply_is_not_in_the_history_and_its_replacement_is() -> None:
    turn = read_single_turn(*build_exchange("Hi", "The key is 7."), REDACT)
    assert (turn.status, turn.redacted, turn.reason) == ("completed", True, "a secret")
    assert turn.reply == PlainText(text="(Withheld.)")
    assert "key" not in repr(turn)


def test_a_reply_withheld_later_was_settled_when_it_was_said() -> None:
    talked = build_exchange("Hi", "Hello")
    assert read_single_turn(*talked, REDACT).settled_at == read_single_turn(*talked).settled_at


def test_turns_stand_in_the_order_they_were_submitted() -> None:
    steps = (
        submit_turn("One"),
        submit_turn("Two"),
        submit_turn("Three"),
        CancelTurn(3),
        CancelTurn(1),
    )
    assert [turn.turn for turn in read_history(*steps)] == [1, 2, 3]
