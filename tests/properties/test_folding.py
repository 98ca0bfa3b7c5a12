from __future__ import annotations

from dataclasses import replace
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from tests.parts.any_event import ANY_EVENT, EVENTS
from tests.parts.sessions import Request, fewer, played, requests
from turnlog.events.envelope import Recorded
from turnlog.events.kinds import KnownEvent, Unknown
from turnlog.projections.history import history
from turnlog.projections.session.evolve import evolve, fold, fold_whole
from turnlog.projections.session.state import SessionState
from turnlog.projections.testing import STATE, Given


def test_any_event_means_every_kind_there_is() -> None:
    assert set(EVENTS) == set(get_args(KnownEvent))


@given(st.lists(ANY_EVENT, max_size=30))
def test_folding_never_fails_whatever_was_recorded(events: list[KnownEvent]) -> None:
    session = Given().recorded(*events)
    assert fold(session.events) == session.state
    history(session.events)


@fewer
@given(requests(closing=True))
def test_an_event_of_a_later_release_changes_nothing_but_the_head(asked: list[Request]) -> None:
    session = played(asked)
    last = session.events[-1]
    envelope = last.envelope.model_copy(update={"commandkey": None})
    later = Recorded(envelope, Unknown("turnlog.turn-praised.v1", {}), 9_999, last.stored)
    assert evolve(session.state, later) == replace(session.opened, head=later.head)
    assert evolve(None, later) is None


@fewer
@given(requests(closing=True), st.sampled_from([0, 1, 50, 300]), st.integers(0, 200))
def test_a_snapshot_and_the_tail_behind_it_give_the_state_folded_from_nothing(
    asked: list[Request], reach: int, cut: int
) -> None:
    events = played(asked, reach=reach).events
    snapshot = STATE.dump_json(whole(fold(events[: 1 + cut % len(events)])))
    resumed = fold(events[1 + cut % len(events) :], STATE.validate_json(snapshot))
    assert resumed == fold(events)
    assert STATE.dump_json(whole(resumed)) == STATE.dump_json(whole(fold(events)))


@given(st.lists(ANY_EVENT, min_size=1, max_size=20))
def test_every_state_survives_its_json(events: list[KnownEvent]) -> None:
    state = Given().recorded(*events).state
    if state is not None:
        assert STATE.validate_json(STATE.dump_json(state)) == state


@fewer
@given(requests(closing=True))
def test_a_session_folded_whole_keeps_every_turn_one_by_one(asked: list[Request]) -> None:
    events = played(asked, reach=1).events
    state = whole(fold_whole(events))
    assert state.earlier == ()
    assert {ref.turn for ref in state.turns} == settled_in(events)


def settled_in(events: tuple[Recorded, ...]) -> set[int]:
    return {turn.turn for turn in history(events) if turn.settled_at}


def whole(state: SessionState | None) -> SessionState:
    assert state is not None
    return state
