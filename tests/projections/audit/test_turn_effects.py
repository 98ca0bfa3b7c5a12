"""The effects of a turn belong to that turn and to no other."""

from __future__ import annotations

from tests.support.generators.tracked_session import TrackedSession, build_tracked_blueprint
from turnlog.events.model.session_events import PhaseEntered
from turnlog.events.model.turn_events import TurnSubmitted
from turnlog.projections.audit.explain.turn_effects import iterate_effects
from turnlog.projections.audit.record.partial_log import build_complete_log
from turnlog.projections.testing import (
    SessionScenario,
    build_exchange,
    given,
    open_session,
    submit_turn,
)

ENTERED = PhaseEntered(phase="walk", before="talk", signal="on_success", turn=1)

MOVED = "talk → walk by on_success"


def list_effects(session: SessionScenario, turn: int) -> list[str]:
    """Give what a turn led to, as people read it."""
    return [each.what for each in iterate_effects(build_complete_log(session.events), turn)]


def test_only_a_turn_without_input_is_reported_as_started_by_itself() -> None:
    ended = given(open_session(), *build_exchange("Go on.", "We are there."), ENTERED)
    assert list_effects(ended.apply_steps(submit_turn("And now I speak.")), 1) == [MOVED]
    alone = f"turn 2 started by itself in phase {ENTERED.phase}"
    assert list_effects(ended.apply_steps(TurnSubmitted(turn=2)), 1) == [MOVED, alone]


def test_redaction_note_is_of_the_latest_reply_even_if_an_earlier_one_is_redacted_afterwards() -> (
    None
):
    led = TrackedSession(blueprint=build_tracked_blueprint())
    for _ in range(2):
        led.submit_turn("How?")
        led.answer_turn("So.")
    led.redact_reply(2, "(withheld)")
    led.redact_reply(1, "(withheld)")
    call = led.submit_turn("And?")
    led.answer_turn("Well.")
    led.submit_turn("And then?")
    assert list_effects(led.session, 2) == [f"call {call} was told of it by note"]
    assert list_effects(led.session, 1) == []


def test_unused_redaction_note_is_replaced_by_the_next_one() -> None:
    led = TrackedSession(blueprint=build_tracked_blueprint())
    led.submit_turn("How?")
    led.answer_turn("So.")
    led.submit_turn("And?")
    led.redact_reply(1, "(withheld)")
    led.answer_turn("Well.")
    led.redact_reply(2, "(withheld)")
    call = led.submit_turn("And then?")
    assert list_effects(led.session, 1) == []
    assert list_effects(led.session, 2) == [f"call {call} was told of it by note"]
