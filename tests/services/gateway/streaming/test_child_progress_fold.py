"""When a watcher gets a report about a child, and which of two signs is the later one."""

from __future__ import annotations

from turnlog.events.tokens import AttemptReset, Token
from turnlog.services.use_cases.turns.child_progress import ChildProgress, ChildProgressFold


def start_child() -> ChildProgressFold:
    return ChildProgressFold(
        ChildProgress(session="c", turn=1, parent="s", call="1.1", profile="thinker")
    )


def write_text(offset: int, text: str, attempt: int = 1) -> Token:
    return Token(call="1.1", attempt=attempt, offset=offset, text=text)


def test_number_of_characters_is_reported_once_a_second_and_a_change_at_once() -> None:
    child = start_child()
    child.apply_token(write_text(0, "One "))
    first = child.take_report(10.0)
    assert first
    assert (first.doing, first.characters) == ("text", 4)
    child.apply_token(write_text(4, "two"))
    assert child.take_report(10.9) is None
    second = child.take_report(11.0)
    assert second
    assert second.characters == 7
    assert child.take_report(99.0) is None, "nothing has changed"
    child.apply_token(AttemptReset(call="1.1", attempt=2))
    third = child.take_report(99.1)
    assert third
    assert (third.doing, third.characters) == ("started", 0)


def test_tokens_of_an_earlier_attempt_and_signs_after_the_end_change_nothing() -> None:
    child = start_child()
    child.apply_token(write_text(0, "Again", attempt=2))
    child.apply_token(write_text(0, "The first attempt", attempt=1))
    assert child.current.characters == 5
    child.settle("cancelled")
    child.apply_token(write_text(5, " and again", attempt=3))
    assert (child.current.doing, child.current.outcome) == ("ended", "cancelled")
