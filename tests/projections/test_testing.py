from __future__ import annotations

import pytest

from turnlog.events.content import Plain, digest_of
from turnlog.events.errors import Refused
from turnlog.events.turn import TurnSubmitted
from turnlog.projections.history import history
from turnlog.projections.session.commands import CancelTurn
from turnlog.projections.session.evolve import fold
from turnlog.projections.testing import (
    Keyed,
    answering,
    exchange,
    given,
    opening,
    saying,
)

SUBMITTED = TurnSubmitted(turn=1, text=Plain(text="Hi"))


def test_what_is_given_is_recorded_as_on_a_real_log() -> None:
    session = given(opening(), *exchange("Hi", "Hello"))
    assert [event.sequence for event in session.events] == [1, 2, 3, 4, 5, 6]
    assert [event.stream_sequence for event in session.events] == [*range(1_001, 1_007)]
    hashes = [event.head.hash for event in session.events]
    assert [event.envelope.prevhash for event in session.events] == [None, *hashes[:-1]]
    assert session.state == fold(session.events)


def test_every_run_records_the_same_bytes() -> None:
    first, second = (given(opening(), saying("Hi")) for _ in range(2))
    assert [event.stored for event in first.events] == [event.stored for event in second.events]


def test_a_key_travels_with_its_command() -> None:
    session = given(opening(), Keyed(saying("Hi"), "k1", "body"))
    envelope = session.events[-1].envelope
    assert (envelope.commandkey, envelope.commandhash) == ("k1", digest_of("body"))


def test_asking_records_nothing_and_expecting_goes_on() -> None:
    session = given(opening())
    asked = session.when(saying("Hi"))
    assert session.seen_by(history) == ()
    after = asked.then(SUBMITTED)
    assert [turn.turn for turn in after.seen_by(history)] == [1]


def test_an_expectation_that_does_not_hold_shows_both_sides() -> None:
    asked = given(opening()).when(saying("Hi"))
    with pytest.raises(AssertionError, match=r"what came:\n  turn-submitted(.|\n)*nothing"):
        asked.then()
    with pytest.raises(AssertionError, match="turn-queued"):
        asked.then_names("turn-queued")


def test_an_expected_refusal_must_be_that_refusal() -> None:
    refused = given(opening()).when(CancelTurn())
    assert refused.refused("nothing-to-cancel").field == "turn"
    with pytest.raises(AssertionError, match="nothing-to-cancel"):
        refused.refused("unknown-turn")
    with pytest.raises(AssertionError, match="session"):
        refused.refused("nothing-to-cancel", field="session")
    with pytest.raises(AssertionError, match="it was not refused"):
        given(opening()).when(saying("Hi")).refused("turn-open")


def test_a_refusal_that_was_not_expected_is_raised_as_it_is() -> None:
    with pytest.raises(Refused, match="nothing-to-cancel"):
        given(opening()).when(CancelTurn()).then()
    with pytest.raises(Refused, match="nothing-to-cancel"):
        given(opening(), CancelTurn())


def test_what_depends_on_a_session_needs_one() -> None:
    with pytest.raises(AssertionError, match="never opened"):
        given(answering("Hello"))
    with pytest.raises(AssertionError, match="no turn is open"):
        given(opening(), answering("Hello"))
