"""Which events end a turn, and when a redaction does."""

from __future__ import annotations

import pytest

from tests.support.generators.event_samples import build_samples
from turnlog.events.content import PlainText
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import TurnCompleted, find_turn_end, is_end_of_turn

END_TYPES = {"turn-completed", "turn-failed", "turn-cancelled", "reply-redacted"}

REDACTED = ReplyRedacted(turn=3, reason="secret", rule="r", replacement=PlainText(text="-"))


@pytest.mark.parametrize("name", build_samples())
def test_exactly_four_event_types_end_a_turn(name: str) -> None:
    event = build_samples()[name]
    ends = any(event.type == f"turnlog.{kind}.v1" for kind in END_TYPES)
    assert find_turn_end(event) is (event if ends else None)


def test_redaction_ends_only_a_turn_that_has_not_ended() -> None:
    assert find_turn_end(REDACTED, ended={1, 2}) is REDACTED
    assert find_turn_end(REDACTED, ended={3}) is None


def test_second_reply_is_an_end_even_of_a_turn_that_has_ended() -> None:
    again = TurnCompleted(turn=3, text=PlainText(text="Again."))
    assert find_turn_end(again, ended={3}) is again


def test_event_ends_only_its_own_turn() -> None:
    assert is_end_of_turn(REDACTED, 3)
    assert not is_end_of_turn(REDACTED, 4)
