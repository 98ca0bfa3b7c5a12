"""What the event that ends a turn names of the tools that ran."""

from __future__ import annotations

import pytest

from tests.projections.session.test_turn_situations import CALLED, CLAIMED
from turnlog.events.content import PlainText
from turnlog.events.model.tool_events import ToolReturned, ToolStarted
from turnlog.events.model.turn_events import TurnCancelled
from turnlog.projections.session.commands import CancelTurn, CloseSession
from turnlog.projections.session.rules.steps.outcome_rules import CANCELLED_HEADING
from turnlog.projections.session_views.session_history import build_history
from turnlog.projections.testing import SessionScenario
from turnlog.projections.tools.result_condensation import (
    MAX_NAMED_OUTCOMES,
    MAX_WORK_RESULTS,
    add_result_texts,
    format_tool_outcomes,
)

STARTED = ToolStarted(turn=1, call="1.1", id="t1", tool="look", attempt=1)

CALLED_SESSION = CLAIMED.apply_steps(CALLED)


def return_with(outcome: str) -> ToolReturned:
    return ToolReturned.model_validate(
        {
            "turn": 1,
            "call": "1.1",
            "id": "t1",
            "tool": "look",
            "outcome": outcome,
            "text": PlainText(text="look {}\n  a boat"),
        }
    )


def cancel(session: SessionScenario) -> TurnCancelled:
    cancelled = session.when(CancelTurn()).events
    return next(each for each in cancelled if isinstance(each, TurnCancelled))


@pytest.mark.parametrize("outcome", ["answered", "failed", "lost"])
def test_cancelled_turn_names_a_tool_that_ran_and_keeps_its_result(outcome: str) -> None:
    session = CALLED_SESSION.apply_steps(STARTED, return_with(outcome))
    ended = cancel(session)
    assert ended.outcomes == f"{CANCELLED_HEADING}\n- look (key 1.1/t1): {outcome}"
    assert len(ended.kept_results) == 1


def test_results_stay_in_the_order_of_requests_for_prompts_and_for_readers() -> None:
    second = return_with("answered").model_copy(
        update={"id": "t2", "text": PlainText(text="look {}\n  a buoy")}
    )
    session = CALLED_SESSION.append_events(
        CALLED.model_copy(update={"id": "t2"}), second, return_with("answered")
    )
    second_returned, first_returned = (each.sequence for each in session.events[-2:])
    ended = session.append_events(cancel(session))
    (settled,) = ended.opened_state.turns
    assert [ref.sequence for ref in settled.results] == [first_returned, second_returned]
    (turn,) = build_history(ended.events)
    assert turn.results == (
        PlainText(text="look {}\n  a boat"),
        PlainText(text="look {}\n  a buoy"),
    )


def test_tool_that_runs_when_the_turn_ends_is_named_as_lost() -> None:
    assert cancel(CALLED_SESSION.apply_steps(STARTED)).outcomes.endswith("(key 1.1/t1): lost")


@pytest.mark.parametrize("outcome", ["refused", "accepted"])
def test_tool_that_did_not_run_is_not_named(outcome: str) -> None:
    assert cancel(CALLED_SESSION.apply_steps(return_with(outcome))).outcomes == ""
    assert cancel(CALLED_SESSION).outcomes == ""


def test_closed_session_names_the_tools_of_its_open_turn() -> None:
    session = CALLED_SESSION.apply_steps(STARTED, return_with("answered"))
    closed = session.when(CloseSession(reason="over")).events
    (ended,) = [each for each in closed if isinstance(each, TurnCancelled)]
    assert ended.outcomes


def test_outcomes_are_bounded_in_number_and_length_and_take_one_line_each() -> None:
    many = [(f"look\n{number}" + "x" * 500, "k", "answered") for number in range(500)]
    lines = format_tool_outcomes("Tools that ran:", many).splitlines()
    assert lines[1] == f"- {500 - MAX_NAMED_OUTCOMES} before these"
    assert len(lines) == MAX_NAMED_OUTCOMES + 2
    assert max(map(len, lines)) < 100
    shown = add_result_texts("Tools that ran:", ["r" * 5_000] * 50)
    assert shown.count("...") == MAX_WORK_RESULTS
