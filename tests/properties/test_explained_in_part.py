"""A call has the same explanation from a partial log as from the whole session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.parts.led import Led, led_by
from tests.properties.test_causes import DEEDS, done
from turnlog.events.envelope import Recorded
from turnlog.events.kinds import Unknown
from turnlog.projections.audit.diff import diff
from turnlog.projections.audit.known import LASTING, Further, Known, Unfolded, whole
from turnlog.projections.audit.sides import side_of
from turnlog.projections.audit.why import why, why_call
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState

STEP = 8
"""How many more events an answer gets each time it asks."""
few = settings(max_examples=12)
Answer = TypeVar("Answer")


@st.composite
def sessions(draw: st.DrawFn) -> Led:
    """Draw a session whose views hold all turns or two."""
    views: list[dict[str, JsonValue]] = [{"recent": {}}, {"recent": {"max_turns": 2}}]
    led = Led(led_by(history=draw(st.sampled_from(views))))
    led.put(1, "The sea is near.")
    for deed in ("talk", *draw(st.lists(DEEDS, min_size=4, max_size=14)), "talk"):
        done(draw, led, deed)
    return led


def state_at(events: list[Recorded], sequence: int) -> SessionState:
    state = fold(events[:sequence])
    assert state
    return state


def lasting(recorded: Recorded) -> bool:
    return not isinstance(recorded.event, Unknown) and recorded.event.leaf in LASTING


def in_part(events: list[Recorded], calls: set[str], ask: Callable[[Known], Answer]) -> Answer:
    """Answer a question from a partial log, loading what the answer asks for."""
    rare, last = [*filter(lasting, events)], events[-1:]
    known = (
        Known(events[0].session, rare, (), len(events))
        .joined(last)
        .was(state_at(events, len(events)))
    )
    for each in events:
        known = known.joined([each]) if getattr(each.event, "call", "") in calls else known
    while True:
        try:
            return ask(known)
        except Unfolded as unfolded:
            known = known.was(state_at(events, unfolded.sequence))
        except Further as further:
            wanted = further.wanted
            onward = wanted.start == 1 or known.stretch(wanted.start - 1)
            some = wanted[:STEP] if onward else wanted[-STEP:]
            before = len(known.events), known.stretches
            known = known.joined(events[some.start - 1 : some.stop - 1])
            assert (len(known.events), known.stretches) != before, "it asks for what it has"


def events_of(led: Led) -> list[Recorded]:
    return list(led.session.events)


@few
@given(sessions(), st.data())
def test_what_differs_is_told_from_part_of_a_session_as_from_all_of_it(
    led: Led, data: st.DataObject
) -> None:
    events, calls = events_of(led), st.sampled_from(sorted(led.calls))
    before, after = data.draw(calls), data.draw(calls)

    def differ(known: Known) -> object:
        return diff(side_of(known, before, led.library), side_of(known, after, led.library))

    assert in_part(events, {before, after}, differ) == differ(whole(events))


@few
@given(sessions(), st.data())
def test_why_is_told_from_part_of_a_session_as_from_all_of_it(
    led: Led, data: st.DataObject
) -> None:
    events = events_of(led)
    call = data.draw(st.sampled_from(sorted(led.calls)))
    told = in_part(events, {call}, lambda known: why_call(known, call, led.library))
    assert told == why_call(whole(events), call, led.library)
    turn = int(call.partition(".")[0])
    told = in_part(events, set(), lambda known: why(known, turn, led.library))
    assert told == why(whole(events), turn, led.library)
