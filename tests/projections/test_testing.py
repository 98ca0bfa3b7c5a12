from __future__ import annotations

import pytest

from turnlog.events.content import PlainText, compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.projections.session.commands import CancelTurn
from turnlog.projections.session.evolve import fold
from turnlog.projections.session_views.session_history import build_history
from turnlog.projections.testing import (
    KeyedCommand,
    build_exchange,
    complete_turn,
    given,
    open_session,
    submit_turn,
)

SUBMITTED = TurnSubmitted(turn=1, text=PlainText(text="Hi"))


def test_given_steps_are_recorded_as_in_a_real_log() -> None:
    session = given(open_session(), *build_exchange("Hi", "Hello"))
    assert [event.sequence for event in session.events] == [1, 2, 3, 4]
    assert [event.stream_sequence for event in session.events] == [*range(1_001, 1_005)]
    hashes = [event.head.hash for event in session.events]
    assert [event.envelope.prevhash for event in session.events] == [None, *hashes[:-1]]
    assert session.state == fold(session.events)


def test_every_run_records_the_same_bytes() -> None:
    first, second = (given(open_session(), submit_turn("Hi")) for _ in range(2))
    assert [event.stored for event in first.events] == [event.stored for event in second.events]


def test_idempotency_key_is_recorded_with_its_command() -> None:
    session = given(open_session(), KeyedCommand(submit_turn("Hi"), "k1", "body"))
    envelope = session.events[-1].envelope
    assert (envelope.commandkey, envelope.commandhash) == ("k1", compute_digest("body"))


def test_when_records_nothing_and_then_continues_with_the_new_events() -> None:
    session = given(open_session())
    outcome = session.when(submit_turn("Hi"))
    assert session.apply_projection(build_history) == ()
    after = outcome.then(SUBMITTED)
    assert [turn.turn for turn in after.apply_projection(build_history)] == [1]


def test_failed_expectation_shows_expected_and_actual_events() -> None:
    outcome = given(open_session()).when(submit_turn("Hi"))
    with pytest.raises(AssertionError, match=r"what came:\n  turn-submitted(.|\n)*nothing"):
        outcome.then()
    with pytest.raises(AssertionError, match="turn-queued"):
        outcome.then_names("turn-queued")


def test_then_refused_requires_the_same_code_and_field() -> None:
    refused = given(open_session()).when(CancelTurn())
    assert refused.then_refused("nothing-to-cancel").field == "turn"
    with pytest.raises(AssertionError, match="nothing-to-cancel"):
        refused.then_refused("unknown-turn")
    with pytest.raises(AssertionError, match="session"):
        refused.then_refused("nothing-to-cancel", field="session")
    with pytest.raises(AssertionError, match="it was not refused"):
        given(open_session()).when(submit_turn("Hi")).then_refused("turn-open")


def test_unexpected_refusal_is_raised_unchanged() -> None:
    with pytest.raises(Refused, match="nothing-to-cancel"):
        given(open_session()).when(CancelTurn()).then()
    with pytest.raises(Refused, match="nothing-to-cancel"):
        given(open_session(), CancelTurn())


def test_step_that_needs_an_open_turn_fails_without_one() -> None:
    with pytest.raises(AssertionError, match="never opened"):
        given(complete_turn("Hello"))
    with pytest.raises(AssertionError, match="no turn is open"):
        given(open_session(), complete_turn("Hello"))
