from __future__ import annotations

from turnlog.events.content import PlainText
from turnlog.events.model.turn_events import TurnFailed
from turnlog.projections.blueprint.schema.policy_specs import Policies
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    ExcludeTurn,
    RedactReply,
    RestoreTurn,
)
from turnlog.projections.session_views.session_history import HistoryTurn, build_history
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
