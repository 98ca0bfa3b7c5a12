"""The effects of a turn belong to that turn and to no other."""

from __future__ import annotations

from tests.parts.led import Led, led_by
from turnlog.events.model.phase_events import PhaseEntered
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


def told(session: SessionScenario, turn: int) -> list[str]:
    """Give what a turn led to, as people read it."""
    return [each.what for each in iterate_effects(build_complete_log(session.events), turn)]


def test_a_turn_that_somebody_brought_did_not_start_by_itself() -> None:
    ended = given(open_session(), *build_exchange("Go on.", "We are there."), ENTERED)
    assert told(ended.apply_steps(submit_turn("And now I speak.")), 1) == [MOVED]
    alone = f"turn 2 started by itself in phase {ENTERED.phase}"
    assert told(ended.apply_steps(TurnSubmitted(turn=2)), 1) == [MOVED, alone]


def test_a_note_is_of_the_latest_reply_although_an_earlier_one_was_withheld_after_it() -> None:
    led = Led(led_by())
    for _ in range(2):
        led.submit("How?")
        led.answer("So.")
    led.redact(2, "(withheld)")
    led.redact(1, "(withheld)")
    call = led.submit("And?")
    led.answer("Well.")
    led.submit("And then?")
    assert told(led.session, 2) == [f"call {call} was told of it by note"]
    assert told(led.session, 1) == []


def test_a_note_that_nobody_was_told_gives_way_to_the_next_one() -> None:
    led = Led(led_by())
    led.submit("How?")
    led.answer("So.")
    led.submit("And?")
    led.redact(1, "(withheld)")
    led.answer("Well.")
    led.redact(2, "(withheld)")
    call = led.submit("And then?")
    assert told(led.session, 1) == []
    assert told(led.session, 2) == [f"call {call} was told of it by note"]
