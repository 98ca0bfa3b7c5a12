"""Which phases a summary covers."""

from __future__ import annotations

from turnlog.events.memory import HistorySummarised, SummaryBegun, TurnRange
from turnlog.events.phase import PhaseEntered
from turnlog.projections.session.memory_commands import RecordSummary
from turnlog.projections.session.state import SessionState
from turnlog.projections.testing import (
    SPENT,
    answering,
    attempt_of,
    claiming,
    exchange,
    given,
    opening,
    saying,
)

TURNS = (TurnRange(first=1, last=1),)


def summed(state: SessionState) -> RecordSummary:
    return RecordSummary(attempt_of(state), "In short.", "stop", SPENT, "openai/heron")


def test_a_summary_is_of_the_phases_of_the_one_that_it_takes_in() -> None:
    begun = SummaryBegun(turn=2, view="talk", turns=TURNS, characters=100)
    first = given(opening(), PhaseEntered(phase="a"), *exchange("One?", "Two."))
    second = first.later(PhaseEntered(phase="b"), saying("And?"), claiming(), begun, summed)
    former = second.opened.summaries[-1]
    assert former.phases == ("a", "b")
    third = second.later(answering("So."), PhaseEntered(phase="c"), saying("Well?"), claiming())
    again = begun.model_copy(update={"turn": 3, "former": former.sequence})
    (made,) = (
        event
        for event in third.later(again).when(summed).events
        if isinstance(event, HistorySummarised)
    )
    assert made.phases == ("a", "b", "c")
