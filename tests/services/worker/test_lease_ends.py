"""Which events take the lease of its turn from an attempt."""

from __future__ import annotations

import pytest

from turnlog.events.content import PlainText
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.redaction_events import ReplyRedacted
from turnlog.events.model.turn_events import TurnCancelled, TurnReleased
from turnlog.events.registry import KnownEvent
from turnlog.projections.session.commands import AttemptRef
from turnlog.services.worker.attempts.attempt_heartbeats import is_ended_by

ATTEMPT = AttemptRef(3, "3.1", 2)


@pytest.mark.parametrize(
    ("event", "ended"),
    [
        (TurnCancelled(turn=3, reason="cancelled"), True),
        (TurnCancelled(turn=4, reason="cancelled"), False),
        (ReplyRedacted(turn=3, reason="x", rule="r", replacement=PlainText(text="-")), True),
        (ReplyRedacted(turn=2, reason="x", rule="r", replacement=PlainText(text="-")), False),
        (AttemptStarted(turn=3, call="3.1", attempt=3, worker="b"), True),
        (AttemptStarted(turn=3, call="3.1", attempt=2, worker="a"), False),
        (TurnReleased(turn=3), False),
    ],
)
def test_an_attempt_ends_with_its_turn_or_with_a_later_attempt(
    event: KnownEvent, *, ended: bool
) -> None:
    assert is_ended_by(event, ATTEMPT) is ended
