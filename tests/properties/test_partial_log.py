"""A call has the same explanation from a partial log as from the whole session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.faults.suite_extent import choose_examples
from tests.properties.test_diff_causes import DEEDS, apply_action
from tests.support.generators.tracked_session import TrackedSession, build_tracked_blueprint
from turnlog.events.envelope import RecordedEvent
from turnlog.events.registry import UnknownEvent
from turnlog.projections.audit.diff.call_diff import compare_calls
from turnlog.projections.audit.explain.call_snapshot import build_call_snapshot
from turnlog.projections.audit.explain.turn_explanation import explain_call, explain_turn
from turnlog.projections.audit.record.partial_log import (
    LASTING_LEAVES,
    MissingEvents,
    MissingState,
    PartialLog,
    build_complete_log,
)
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.state import SessionState

STEP = 8
"""How many more events an answer gets each time it asks."""

few = settings(max_examples=choose_examples(8))

Answer = TypeVar("Answer")


@st.composite
def draw_session(draw: st.DrawFn) -> TrackedSession:
    """Draw a session whose views hold all turns or two."""
    views: list[dict[str, JsonValue]] = [{"recent": {}}, {"recent": {"max_turns": 2}}]
    led = TrackedSession(blueprint=build_tracked_blueprint(history=draw(st.sampled_from(views))))
    led.add_segment(1, "The sea is near.")
    for action in ("talk", *draw(st.lists(DEEDS, min_size=4, max_size=14)), "talk"):
        apply_action(draw, led, action)
    return led


def fold_until(events: list[RecordedEvent], sequence: int) -> SessionState:
    state = fold(events[:sequence])
    assert state
    return state


def is_lasting(recorded: RecordedEvent) -> bool:
    return not isinstance(recorded.event, UnknownEvent) and recorded.event.leaf in LASTING_LEAVES


def answer_from_partial_log(
    events: list[RecordedEvent], calls: set[str], ask: Callable[[PartialLog], Answer]
) -> Answer:
    """Give an answer to whoever has only what is rare, some calls, and then what it asks for."""
    rare, last = [*filter(is_lasting, events)], events[-1:]
    known = (
        PartialLog(session=events[0].session, events=rare, stretches=(), end=len(events))
        .add_events(last)
        .add_state(fold_until(events, len(events)))
    )
    for each in events:
        known = known.add_events([each]) if getattr(each.event, "call", "") in calls else known
    while True:
        try:
            return ask(known)
        except MissingState as unfolded:
            known = known.add_state(fold_until(events, unfolded.sequence))
        except MissingEvents as further:
            sequences = further.wanted
            onward = sequences.start == 1 or known.find_range(sequences.start - 1)
            some = sequences[:STEP] if onward else sequences[-STEP:]
            before = len(known.events), known.stretches
            known = known.add_events(events[some.start - 1 : some.stop - 1])
            assert (len(known.events), known.stretches) != before, "it asks for what it has"


def list_events(led: TrackedSession) -> list[RecordedEvent]:
    return list(led.session.events)


@few
@given(draw_session(), st.data())
def test_diff_from_a_partial_log_equals_the_diff_from_the_complete_log(
    led: TrackedSession, data: st.DataObject
) -> None:
    events, calls = list_events(led), st.sampled_from(sorted(led.calls))
    before, after = data.draw(calls), data.draw(calls)

    def differ(known: PartialLog) -> object:
        return compare_calls(
            build_call_snapshot(known, before, led.library),
            build_call_snapshot(known, after, led.library),
        )

    assert answer_from_partial_log(events, {before, after}, differ) == differ(
        build_complete_log(events)
    )


@few
@given(draw_session(), st.data())
def test_explanation_from_a_partial_log_equals_that_from_the_complete_log(
    led: TrackedSession, data: st.DataObject
) -> None:
    events = list_events(led)
    call = data.draw(st.sampled_from(sorted(led.calls)))
    explanation = answer_from_partial_log(
        events, {call}, lambda known: explain_call(known, call, led.library)
    )
    assert explanation == explain_call(build_complete_log(events), call, led.library)
    turn = int(call.partition(".")[0])
    explanation = answer_from_partial_log(
        events, set(), lambda known: explain_turn(known, turn, led.library)
    )
    assert explanation == explain_turn(build_complete_log(events), turn, led.library)
