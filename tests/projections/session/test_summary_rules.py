"""Which phases a summary covers."""

from __future__ import annotations

from turnlog.events.model.memory_events import HistorySummarised, SummaryBegun, TurnRange
from turnlog.events.model.session_events import PhaseEntered
from turnlog.projections.session.commands import RecordSummary
from turnlog.projections.session.state import SessionState
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    build_exchange,
    claim_turn,
    complete_turn,
    get_attempt,
    given,
    open_session,
    submit_turn,
)

TURNS = (TurnRange(first=1, last=1),)


def build_summary(state: SessionState) -> RecordSummary:
    return RecordSummary(
        attempt=get_attempt(state),
        text="In short.",
        finish="stop",
        spent=SAMPLE_SPENT,
        model="openai/heron",
    )


def test_summary_covers_the_phases_of_the_summary_that_it_absorbs() -> None:
    begun = SummaryBegun(turn=2, view="talk", turns=TURNS, characters=100)
    first = given(open_session(), PhaseEntered(phase="a"), *build_exchange("One?", "Two."))
    second = first.apply_steps(
        PhaseEntered(phase="b"), submit_turn("And?"), claim_turn(), begun, build_summary
    )
    former = second.opened_state.summaries[-1]
    assert former.phases == ("a", "b")
    third = second.apply_steps(
        complete_turn("So."), PhaseEntered(phase="c"), submit_turn("Well?"), claim_turn()
    )
    again = begun.model_copy(update={"turn": 3, "former": former.sequence})
    (made,) = (
        event
        for event in third.apply_steps(again).when(build_summary).events
        if isinstance(event, HistorySummarised)
    )
    assert made.phases == ("a", "b", "c")
