"""What an open turn waits for, who works at it, and which call its attempts are at."""

from __future__ import annotations

import pytest

from tests.support.generators.event_samples import build_samples
from turnlog.events.content import PlainText, compute_digest
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalRequested,
    PlanMade,
    StepPlanned,
    ToolCalled,
    ToolReturned,
    ToolStarted,
)
from turnlog.events.registry import KnownEvent
from turnlog.projections.session.commands import EndAttempt
from turnlog.projections.session.next_call import get_step_number, has_step_failed
from turnlog.projections.session.open_turn import (
    ActedStep,
    ApprovalWait,
    ChildWait,
    EndedAttempt,
    OpenTurn,
    PromptedCall,
    RunningAttempt,
    TurnSituation,
    UnclaimedTurn,
    UnpromptedCall,
    find_situation,
)
from turnlog.projections.session.tool_uses import (
    ChildTurnRef,
    DecidedApproval,
    RequestedTool,
    ReturnedTool,
    StartedTool,
    UndecidedApproval,
)
from turnlog.projections.testing import (
    SAMPLE_SPENT,
    STATE_ADAPTER,
    SessionScenario,
    claim_turn,
    get_attempt,
    get_open_turn,
    given,
    open_session,
    submit_turn,
)

SUBMITTED = given(open_session(), submit_turn("Look"))

CLAIMED = SUBMITTED.apply_steps(claim_turn("w1"))

CALLED = ToolCalled(turn=1, call="1.1", id="t1", tool="look", arguments="{}")

REQUESTED = ApprovalRequested(
    turn=1, approval=1, call="1.1", id="t1", tool="look", deadline="2026-01-01T01:00:00Z"
)

DECIDED = ApprovalDecided(turn=1, approval=1, call="1.1", id="t1", tool="look", decision="approve")

STARTED = ToolStarted(turn=1, call="1.1", id="t1", tool="look", attempt=2)

ASKED = ChildRequested(turn=1, call="1.1", id="t1", profile="look", session="child-1", child_turn=1)

FAILED = ToolReturned(turn=1, call="1.1", id="t1", tool="look", outcome="failed")


def answer_call(call: str) -> CallCompleted:
    return CallCompleted(
        turn=1,
        call=call,
        attempt=1,
        finish="tool_calls",
        digest=compute_digest("I look."),
        characters=7,
        text=PlainText(text="I look."),
        spent=SAMPLE_SPENT,
    )


ANSWERED = CLAIMED.append_events(answer_call("1.1"), CALLED)


def assemble_context(call: str) -> ContextAssembled:
    (sample, *_) = (each for each in build_samples().values() if isinstance(each, ContextAssembled))
    return sample.model_copy(update={"turn": 1, "call": call})


def get_turn(session: SessionScenario) -> OpenTurn:
    return get_open_turn(session.opened_state)


def hand_back(session: SessionScenario) -> SessionScenario:
    attempt = get_attempt(session.opened_state)
    return session.apply_steps(
        EndAttempt(attempt=attempt, outcome="cancelled", spent=SAMPLE_SPENT, then="release")
    )


@pytest.mark.parametrize(
    ("session", "situation"),
    [
        (SUBMITTED, UnclaimedTurn),
        (CLAIMED, RunningAttempt),
        (hand_back(CLAIMED), EndedAttempt),
        (ANSWERED, EndedAttempt),
        (ANSWERED.append_events(REQUESTED), ApprovalWait),
        (ANSWERED.append_events(REQUESTED, DECIDED), EndedAttempt),
        (ANSWERED.append_events(ASKED), ChildWait),
        (ANSWERED.append_events(ASKED, FAILED), EndedAttempt),
    ],
    ids=[
        *("submitted", "claimed", "handed back", "answered"),
        *("asks a person", "decided", "asks a child", "child answered"),
    ],
)
def test_open_turn_has_one_situation_that_survives_a_snapshot(
    session: SessionScenario, situation: type[TurnSituation]
) -> None:
    assert isinstance(find_situation(get_turn(session)), situation)
    state = session.opened_state
    assert STATE_ADAPTER.validate_json(STATE_ADAPTER.dump_json(state)) == state


def test_approval_wait_precedes_child_wait_and_both_precede_a_lease() -> None:
    other = CALLED.model_copy(update={"id": "t2"})
    both = ANSWERED.append_events(other, REQUESTED, ASKED.model_copy(update={"id": "t2"}))
    waiting = find_situation(get_turn(both))
    assert isinstance(waiting, ApprovalWait)
    assert [each.use.id for each in waiting.tools] == ["t1"]
    decided = find_situation(get_turn(both.append_events(DECIDED)))
    assert isinstance(decided, ChildWait)
    assert [each.use.id for each in decided.children] == ["t2"]


def test_second_prompt_of_a_call_gets_the_next_number_and_the_same_predecessor() -> None:
    first = CLAIMED.append_events(assemble_context("1.1"))
    again = first.append_events(assemble_context("1.2"))
    calls = [get_turn(each).call for each in (CLAIMED, first, again)]
    assert calls[0] == UnpromptedCall(1, after_attempt=0)
    assert [each.number for each in calls] == [1, 1, 2]
    assert [each.before for each in calls] == [0, 0, 0]
    assert all(isinstance(each, PromptedCall) for each in calls[1:])
    answered = get_turn(again.append_events(answer_call("1.2")))
    assert answered.call == UnpromptedCall(3, after_attempt=1)
    assert answered.call.before == 2


@pytest.mark.parametrize(
    ("events", "progress"),
    [
        ((), RequestedTool),
        ((STARTED,), StartedTool),
        ((ASKED,), ChildTurnRef),
        ((ASKED, STARTED), ChildTurnRef),
        ((STARTED, FAILED), ReturnedTool),
        ((FAILED, STARTED), ReturnedTool),
    ],
    ids=["requested", "started", "asked of a child", "started after that", "returned", "too late"],
)
def test_tool_progress_follows_from_its_events(
    events: tuple[KnownEvent, ...], progress: type[object]
) -> None:
    (use,) = get_turn(ANSWERED.append_events(*events)).tools
    assert isinstance(use.progress, progress)
    assert use.is_pending == (progress is not ReturnedTool)


def test_approval_is_undecided_until_its_decision_is_recorded() -> None:
    asked = ANSWERED.append_events(REQUESTED)
    (before,) = get_turn(asked).tools
    decided = asked.append_events(DECIDED)
    (after,) = get_turn(decided).tools
    assert before.approval == UndecidedApproval(1, REQUESTED.deadline)
    assert after.approval == DecidedApproval(1, "approve", decided.events[-1].stream_sequence)


def test_a_step_whose_tools_failed_is_retried_once() -> None:
    step = StepPlanned(turn=1, step=1, goal=PlainText(text="Look."), tools=("look",))
    planned = CLAIMED.append_events(
        assemble_context("1.1"), answer_call("1.1"), PlanMade(turn=1, call="1.1", steps=1), step
    )
    called, failed = (each.model_copy(update={"call": "1.2"}) for each in (CALLED, FAILED))
    acted = planned.append_events(assemble_context("1.2"), answer_call("1.2"), called, failed)
    plan = get_turn(acted).plan
    assert plan is not None
    assert plan.acted == ActedStep(1)
    assert has_step_failed(get_turn(acted))
    assert get_step_number(get_turn(acted)) == 1
    retried = get_turn(acted.append_events(assemble_context("1.3"), answer_call("1.3")))
    assert retried.plan is not None
    assert retried.plan.acted == ActedStep(1, is_retry=True)
    assert get_step_number(retried) == 2
