from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.support.generators.reference_assembler import is_kept
from tests.support.generators.session_strategies import (
    SessionRequest,
    draw_requests,
    fewer_examples,
    run_requests,
)
from turnlog.events.content import PlainText
from turnlog.events.envelope import RecordedEvent
from turnlog.projections.session.evolve import fold
from turnlog.projections.session.fold.settled_turns import find_settled_turn
from turnlog.projections.session.state import MAX_RECENT_TURNS, SessionState
from turnlog.projections.session_views.session_history import HistoryTurn, build_history
from turnlog.projections.testing import SessionScenario, build_exchange, open_session
from turnlog.projections.testing import given as given_session


@dataclass(frozen=True, slots=True)
class TurnMark:
    """What the state should hold of a settled turn, computed from the history alone."""

    status: str
    excluded: bool
    redacted: bool


def read_history_marks(events: tuple[RecordedEvent, ...]) -> dict[int, TurnMark]:
    turns = [turn for turn in build_history(events) if turn.status not in {"open", "queued"}]
    return {turn.turn: TurnMark(turn.status, turn.excluded, turn.redacted) for turn in turns}


def read_state_marks(state: SessionState) -> list[tuple[int, TurnMark]]:
    recent = [(r.turn, TurnMark(r.status, r.excluded, r.redacted)) for r in state.turns]
    earlier = [
        (turn, TurnMark(run.status, run.excluded, run.redacted))
        for run in state.earlier
        for turn in range(run.first, run.last + 1)
    ]
    return sorted([*earlier, *recent], key=lambda item: item[0])


ASKED = draw_requests(closing=True)

REACHES = st.sampled_from([0, 1, 50, 200])


@fewer_examples
@given(ASKED, REACHES)
def test_every_settled_turn_is_stored_once_with_its_outcome(
    requests: list[SessionRequest], reach: int
) -> None:
    session = run_requests(requests, reach=reach)
    assert read_state_marks(session.opened_state) == sorted(
        read_history_marks(session.events).items()
    )


@fewer_examples
@given(ASKED, REACHES)
def test_settled_turn_is_found_individually_or_within_a_run(
    requests: list[SessionRequest], reach: int
) -> None:
    state = run_requests(requests, reach=reach).opened_state
    settled = {turn for turn, _ in read_state_marks(state)}
    for turn in range(-1, state.submitted + 2):
        assert (find_settled_turn(state, turn) is not None) == (turn in settled)


@fewer_examples
@given(ASKED, REACHES)
def test_older_turns_are_stored_in_as_few_runs_as_possible(
    requests: list[SessionRequest], reach: int
) -> None:
    runs = run_requests(requests, reach=reach).opened_state.earlier
    for before, after in pairwise(runs):
        assert before.last < after.first
        alike = replace(before, first=0, last=0) == replace(after, first=0, last=0)
        assert not alike or before.last + 1 < after.first


@fewer_examples
@given(ASKED, st.sampled_from([1, 50, 200]))
def test_turn_moves_into_a_run_only_if_later_turns_fill_the_window(
    requests: list[SessionRequest], reach: int
) -> None:
    session = run_requests(
        [r for r in requests if r.what not in {"exclude", "redact"}], reach=reach
    )
    behind = count_characters(session.events, {ref.turn for ref in session.opened_state.turns})
    if session.opened_state.earlier:
        assert behind >= reach


@fewer_examples
@given(ASKED, st.sampled_from([1, 50, 200]))
def test_turns_stored_individually_are_bounded_by_the_window(
    requests: list[SessionRequest], reach: int
) -> None:
    session = run_requests(
        [r for r in requests if r.what not in {"restore", "redact"}], reach=reach
    )
    behind_the_oldest = {ref.turn for ref in session.opened_state.turns[1:]}
    assert count_characters(session.events, behind_the_oldest) < reach


def count_characters(events: tuple[RecordedEvent, ...], turns: set[int]) -> int:
    """Count what these turns take in a window."""
    return sum(measure_turn(turn) for turn in build_history(events) if turn.turn in turns)


def measure_turn(turn: HistoryTurn) -> int:
    if not is_kept(turn) or turn.excluded:
        return 0
    contents = (turn.text, turn.reply or turn.cut_reply)
    return sum(len(content.text) for content in contents if isinstance(content, PlainText))


def test_number_of_turns_stored_individually_is_bounded() -> None:
    session = given_session(open_session())
    for _ in range(MAX_RECENT_TURNS + 3):
        session = session.apply_steps(*build_exchange("a", "b"))
    state = session.opened_state
    assert len(state.turns) == MAX_RECENT_TURNS
    assert [(run.first, run.last) for run in state.earlier] == [(1, 3)]
    assert state == fold(session.events)


def test_state_of_a_long_session_is_no_larger_than_that_of_a_short_one() -> None:
    def state_after(turns: int) -> SessionState:
        session: SessionScenario = given_session(open_session(reach=40))
        for _ in range(turns):
            session = session.apply_steps(*build_exchange("Hello there", "Good day"))
        return session.opened_state

    short, long = state_after(20), state_after(200)
    assert (len(short.turns), len(short.earlier)) == (len(long.turns), len(long.earlier))
