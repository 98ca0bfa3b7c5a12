from __future__ import annotations

from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from tests.support.generators.event_strategies import ANY_EVENT, EVENT_STRATEGIES
from tests.support.generators.session_strategies import (
    SessionRequest,
    draw_requests,
    fewer_examples,
    run_requests,
)
from turnlog.events.envelope import RecordedEvent
from turnlog.events.registry import KnownEvent, UnknownEvent
from turnlog.projections.session.evolve import evolve, fold, fold_unbounded
from turnlog.projections.session.state import SessionState
from turnlog.projections.session_views.session_history import build_history
from turnlog.projections.testing import STATE_ADAPTER, SessionScenario


def test_event_strategies_cover_every_event_type() -> None:
    assert set(EVENT_STRATEGIES) == set(get_args(KnownEvent))


@given(st.lists(ANY_EVENT, max_size=30))
def test_fold_never_raises_on_any_recorded_events(events: list[KnownEvent]) -> None:
    session = SessionScenario().append_events(*events)
    assert fold(session.events) == session.state
    build_history(session.events)


@fewer_examples
@given(draw_requests(closing=True))
def test_event_of_a_later_release_only_advances_the_head(
    requests: list[SessionRequest],
) -> None:
    session = run_requests(requests)
    last = session.events[-1]
    envelope = last.envelope.model_copy(update={"commandkey": None})
    later = RecordedEvent(envelope, UnknownEvent("turnlog.turn-praised.v1", {}), 9_999, last.stored)
    assert evolve(session.state, later) == replace(session.opened_state, head=later.head)
    assert evolve(None, later) is None


@fewer_examples
@given(draw_requests(closing=True), st.sampled_from([0, 1, 50, 300]), st.integers(0, 200))
def test_snapshot_with_the_events_after_it_folds_to_the_complete_state(
    requests: list[SessionRequest], reach: int, cut: int
) -> None:
    events = run_requests(requests, reach=reach).events
    snapshot = STATE_ADAPTER.dump_json(require_state(fold(events[: 1 + cut % len(events)])))
    resumed = fold(events[1 + cut % len(events) :], STATE_ADAPTER.validate_json(snapshot))
    assert resumed == fold(events)
    assert STATE_ADAPTER.dump_json(require_state(resumed)) == STATE_ADAPTER.dump_json(
        require_state(fold(events))
    )


@given(st.lists(ANY_EVENT, min_size=1, max_size=20))
def test_every_state_survives_a_json_round_trip(events: list[KnownEvent]) -> None:
    state = SessionScenario().append_events(*events).state
    if state is not None:
        assert STATE_ADAPTER.validate_json(STATE_ADAPTER.dump_json(state)) == state


@fewer_examples
@given(draw_requests(closing=True))
def test_unbounded_fold_keeps_every_turn_individually(requests: list[SessionRequest]) -> None:
    events = run_requests(requests, reach=1).events
    state = require_state(fold_unbounded(events))
    assert state.earlier == ()
    assert {ref.turn for ref in state.turns} == list_settled_turns(events)


def list_settled_turns(events: tuple[RecordedEvent, ...]) -> set[int]:
    return {turn.turn for turn in build_history(events) if turn.settled_at}


def require_state(state: SessionState | None) -> SessionState:
    assert state is not None
    return state
