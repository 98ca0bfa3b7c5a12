"""Turns that the state keeps only as runs: why a window leaves each of them out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from turnlog.projections.blueprint.schema.history_specs import HistoryViewSpec
from turnlog.projections.prompt.history.excluded_turns import OUT_OF_REACH, PURGED
from turnlog.projections.prompt.history.history_window import HistoryWindow
from turnlog.projections.prompt.sources.session_material import HIDDEN_PHASE, PhaseVisibility
from turnlog.projections.session.state import SessionState, SettledStatus, SettledTurnRun
from turnlog.projections.testing import given as given_session
from turnlog.projections.testing import open_session

STATUSES: Sequence[SettledStatus] = ("completed", "failed", "cancelled")

PARTS = st.tuples(
    st.integers(0, 1),
    st.integers(1, 3),
    st.sampled_from(STATUSES),
    st.booleans(),
    st.sampled_from([None, "hall", "cellar"]),
)
"""Turns that are missing before a run, its length, and what its turns share."""

VISIBILITIES = st.sampled_from([None, frozenset({"hall"}), frozenset[str]()]).map(PhaseVisibility)

WHOLE = HistoryViewSpec.model_validate({"all": True})


@st.composite
def draw_runs(draw: st.DrawFn) -> tuple[SettledTurnRun, ...]:
    runs = list[SettledTurnRun]()
    turn = 0
    for missing, length, status, excluded, phase in draw(st.lists(PARTS, max_size=8)):
        first = turn + missing + 1
        turn = first + length - 1
        runs.append(
            SettledTurnRun(
                first=first,
                last=turn,
                status=status,
                excluded=excluded,
                redacted=False,
                phase=phase,
            )
        )
    return tuple(runs)


def build_state(runs: tuple[SettledTurnRun, ...], purged: int) -> SessionState:
    state = given_session(open_session()).opened_state
    return dataclasses.replace(state, earlier=runs, purged=purged)


def find_rules(
    runs: Sequence[SettledTurnRun], visibility: PhaseVisibility, purged: int
) -> dict[int, str]:
    """Find the rule of each turn by itself."""
    return {
        turn: HIDDEN_PHASE
        if not visibility.can_show(run.phase)
        else PURGED
        if turn <= purged
        else OUT_OF_REACH
        for run in runs
        for turn in range(run.first, run.last + 1)
    }


@given(draw_runs(), VISIBILITIES, st.integers(0, 12))
def test_each_turn_of_a_run_is_excluded_by_the_rule_that_applies_to_it_alone(
    runs: tuple[SettledTurnRun, ...], visibility: PhaseVisibility, purged: int
) -> None:
    window = HistoryWindow(view=WHOLE, visibility=visibility, access=None)
    excluded = window.select_turns(build_state(runs, purged)).left_out
    found = [(turn, each.rule) for each in excluded for turn in range(each.first, each.last + 1)]
    assert found == sorted(find_rules(runs, visibility, purged).items())


@given(draw_runs(), VISIBILITIES, st.integers(0, 12))
def test_run_is_reachable_if_one_of_its_turns_is_excluded_by_age_only(
    runs: tuple[SettledTurnRun, ...], visibility: PhaseVisibility, purged: int
) -> None:
    rules = find_rules(runs, visibility, purged)
    usable = [
        turn
        for run in runs
        if run.status == "completed" and not run.excluded
        for turn in range(run.first, run.last + 1)
        if rules[turn] == OUT_OF_REACH
    ]
    window = HistoryWindow(view=WHOLE, visibility=visibility, access=None)
    assert window.has_reachable_runs(build_state(runs, purged)) == bool(usable)
