from __future__ import annotations

from turnlog.events.content import Plain
from turnlog.events.turn import TurnFailed
from turnlog.projections.blueprint.schema import Policies
from turnlog.projections.history import Turn, history
from turnlog.projections.session.commands import (
    CancelTurn,
    CloseSession,
    ExcludeTurn,
    RedactReply,
    RestoreTurn,
)
from turnlog.projections.testing import Given, Step, claiming, exchange, given, opening, saying

REDACT = RedactReply(1, "a secret", "operator", "(Withheld.)")


def seen(*steps: Step) -> tuple[Turn, ...]:
    return given(opening(), *steps).seen_by(history)


def only(*steps: Step) -> Turn:
    (turn,) = seen(*steps)
    return turn


def test_a_session_without_turns_has_no_history() -> None:
    assert Given().seen_by(history) == ()
    assert seen() == ()


def test_an_answered_turn_stands_with_its_text_its_reply_and_its_times() -> None:
    assert only(*exchange("Hi", "Hello")) == Turn(
        turn=1,
        status="completed",
        text=Plain(text="Hi"),
        submitted_at="2026-01-01T00:00:01.000000Z",
        sequence=2,
        reply=Plain(text="Hello"),
        finish="stop",
        call="1.1",
        settled_at="2026-01-01T00:00:05.000000Z",
    )


def test_a_turn_is_queued_then_open_then_completed() -> None:
    waiting = (saying("One"), saying("Two"))
    assert [turn.status for turn in seen(*waiting)] == ["open", "queued"]
    released = (*waiting, claiming(), CancelTurn())
    assert [turn.status for turn in seen(*released)] == ["cancelled", "open"]


def test_a_failed_turn_stands_with_its_reason() -> None:
    failed = TurnFailed(turn=1, code="deadline", detail="late", retryable=True)
    turn = only(saying("Hi"), failed)
    assert (turn.status, turn.reason, turn.reply) == ("failed", "deadline", None)
    assert turn.settled_at == "2026-01-01T00:00:02.000000Z"


def test_a_turn_that_was_given_up_says_for_what() -> None:
    stop = saying("Stop", Policies(second_submit="interrupt"))
    assert [turn.reason for turn in seen(saying("Hi"), stop, CloseSession("done"))] == [
        "interrupted",
        "closed",
    ]


def test_an_excluded_turn_stands_marked_and_a_restored_one_as_before() -> None:
    talked = exchange("Hi", "Hello")
    excluded = only(*talked, ExcludeTurn(1))
    assert (excluded.excluded, excluded.reply) == (True, Plain(text="Hello"))
    assert only(*talked, ExcludeTurn(1), RestoreTurn(1)) == only(*talked)


def test_a_withheld_reply_is_not_in_the_history_and_its_replacement_is() -> None:
    turn = only(*exchange("Hi", "The key is 7."), REDACT)
    assert (turn.status, turn.redacted, turn.reason) == ("completed", True, "a secret")
    assert turn.reply == Plain(text="(Withheld.)")
    assert "key" not in repr(turn)


def test_a_reply_withheld_later_was_settled_when_it_was_said() -> None:
    talked = exchange("Hi", "Hello")
    assert only(*talked, REDACT).settled_at == only(*talked).settled_at


def test_turns_stand_in_the_order_they_were_submitted() -> None:
    steps = (saying("One"), saying("Two"), saying("Three"), CancelTurn(3), CancelTurn(1))
    assert [turn.turn for turn in seen(*steps)] == [1, 2, 3]
