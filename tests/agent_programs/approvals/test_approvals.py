"""Tools that a person must approve: the turn waits without a worker until the decision."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent_programs.agent_harness import (
    TWO_STEP_SCRIPTS,
    AgentHarness,
    FakeToolServer,
    build_agent_blueprint,
    build_tool_script,
    open_loop,
)
from tests.support.sessions.session_harness import TENANT, TESTER, build_delivery
from turnlog.events.content import compute_digest
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Refused
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalDecision,
    ApprovalRequested,
    ToolReturned,
    ToolStarted,
)
from turnlog.events.model.turn_events import TurnCancelled, TurnCompleted, TurnFailed
from turnlog.projections.session.commands import (
    AttemptRef,
    CancelTurn,
    ClaimTurn,
    CloseSession,
    DecideApproval,
    StartTool,
)
from turnlog.projections.session.rules.steps.tool_rules import MALFORMED_DETAIL
from turnlog.services.worker.turn_delivery import DeliveryDeferred, DeliverySettled

GUARDED_TOOLS = {
    "servers": {"shop": {"command": ["shop"], "idempotent": ["look"], "approve": ["pay"]}}
}

LOOK, PAY = ("shop_look", '{"what": "hammer"}'), ("shop_pay", '{"what": "hammer"}')


async def open_guarded_loop(**changes: Any) -> AgentHarness:  # noqa: ANN401 - pieces of a blueprint
    return await open_loop(tools={**GUARDED_TOOLS, **changes})


async def submit_until_pause(
    shop: AgentHarness, *requests: tuple[str, str], reply: str = "Done."
) -> RecordedEvent:
    """Submit a turn whose first answer calls these tools, and let a worker give it up."""
    shop.house.model.scripts = [build_tool_script(*requests), [reply]]
    submitted = await shop.house.submit_turn("Get me a hammer.")
    assert await shop.house.run_turn(submitted) == DeliveryDeferred(0)
    assert await shop.house.run_redelivered_turn(submitted) == DeliveryDeferred(300)
    return submitted


async def decide(
    shop: AgentHarness,
    decision: ApprovalDecision,
    approval: int = 1,
    reason: str = "",
    edited: str | None = None,
) -> RecordedEvent:
    """Decide, and return the event that is delivered to a worker."""
    command = DecideApproval(
        turn=1, approval=approval, decision=decision, reason=reason, edited=edited
    )
    done = await shop.house.sessions.handle(TENANT, "s", command, TESTER)
    return done.events[-1]


async def test_no_tool_of_an_answer_runs_before_its_approvals_are_decided() -> None:
    shop = await open_guarded_loop()
    await submit_until_pause(shop, PAY, LOOK)
    assert shop.shop.tool_calls == []
    assert shop.house.list_event_names()[-4:] == [
        *("call-completed", "tool-called", "tool-called", "approval-requested")
    ]
    decided = await decide(shop, "approve")
    assert await shop.house.run_turn(decided) == DeliverySettled()
    assert [tool for tool, _ in shop.shop.tool_calls] == ["pay", "look"]
    (reply,) = shop.list_events(TurnCompleted)
    assert reply.text.text == "Done."
    assert [decided.envelope.actor] == [TESTER.actor]


async def test_model_gets_reason_of_refused_tool_and_loop_continues() -> None:
    shop = await open_guarded_loop()
    await submit_until_pause(shop, LOOK, PAY)
    await shop.house.run_turn(await decide(shop, "refuse", reason="too expensive"))
    assert [tool for tool, _ in shop.shop.tool_calls] == ["look"]
    outcomes = {each.tool: each.outcome for each in shop.list_events(ToolReturned)}
    assert outcomes == {"shop_look": "answered", "shop_pay": "refused"}
    told = shop.house.model.requests[1].messages[-1]["content"]
    assert told == "refused: a person refused it: too expensive"
    assert len(shop.list_events(TurnCompleted)) == 1


async def test_several_approvals_are_pending_at_once_and_last_decision_wakes_worker() -> None:
    shop = await open_guarded_loop()
    await submit_until_pause(shop, PAY, PAY)
    assert [each.approval for each in shop.list_events(ApprovalRequested)] == [1, 2]
    first = await decide(shop, "approve", 2)
    assert await shop.house.run_turn(first) == DeliveryDeferred(300)
    assert shop.shop.tool_calls == []
    assert await shop.house.run_turn(await decide(shop, "refuse", 1)) == DeliverySettled()
    assert len(shop.shop.tool_calls) == 1
    assert [(each.id, each.outcome) for each in shop.list_events(ToolReturned)] == [
        ("t1", "refused"),
        ("t2", "answered"),
    ]


async def test_claim_after_approval_deadline_refuses_undecided_tool() -> None:
    shop = await open_guarded_loop(approval_seconds=60)
    submitted = await submit_until_pause_for(shop, 60)
    shop.house.clock.advance_time(61)
    assert await shop.house.run_redelivered_turn(submitted) == DeliverySettled()
    (decided,) = shop.list_events(ApprovalDecided)
    assert (decided.decision, decided.cause) == ("refuse", "deadline")
    assert shop.shop.tool_calls == []
    told = shop.house.model.requests[1].messages[-1]["content"]
    assert told == "refused: nobody approved it in time"
    assert len(shop.list_events(TurnCompleted)) == 1


async def submit_until_pause_for(shop: AgentHarness, seconds: float) -> RecordedEvent:
    """Submit a turn that pays, and require how long its message waits at most."""
    shop.house.model.scripts = [build_tool_script(PAY), ["Done."]]
    submitted = await shop.house.submit_turn("Get me a hammer.")
    await shop.house.run_turn(submitted)
    waits = await shop.house.run_redelivered_turn(submitted)
    assert isinstance(waits, DeliveryDeferred)
    assert 0 < waits.seconds <= seconds
    return submitted


async def test_turn_deadline_restarts_at_approval_decision() -> None:
    shop = await open_guarded_loop()
    submitted = await submit_until_pause(shop, PAY)
    shop.house.clock.advance_time(1_000)  # A turn may be open for 300 s
    assert await shop.house.run_redelivered_turn(submitted) == DeliveryDeferred(300)
    assert await shop.house.run_turn(await decide(shop, "approve")) == DeliverySettled()
    assert len(shop.list_events(TurnCompleted)) == 1


async def test_turn_can_be_cancelled_while_approval_is_pending() -> None:
    shop = await open_guarded_loop()
    submitted = await submit_until_pause(shop, PAY)
    await shop.house.sessions.handle(TENANT, "s", CancelTurn(1), TESTER)
    assert len(shop.list_events(TurnCancelled)) == 1
    assert [each.outcome for each in shop.list_events(ToolReturned)] == ["refused"]
    assert await shop.house.run_redelivered_turn(submitted) == DeliverySettled()
    with pytest.raises(Refused, match="turn 1 is not open"):
        await decide(shop, "approve")


async def test_tool_cannot_start_before_it_is_approved() -> None:
    shop = await open_guarded_loop()
    await submit_until_pause(shop, PAY)
    state = await shop.house.load_state()
    assert state.open is not None
    start = StartTool(AttemptRef(1, "1.2", state.open.attempt), state.open.tools[0])
    done = await shop.house.sessions.handle(TENANT, "s", start, TESTER)
    assert done.events == ()
    assert shop.list_events(ToolStarted) == []


async def test_tool_starts_with_the_approved_arguments_only() -> None:
    shop = await open_guarded_loop()
    await submit_until_pause(shop, PAY)
    await decide(shop, "approve", edited='{"what":"nail"}')
    await shop.house.sessions.handle(TENANT, "s", ClaimTurn(1, "w1", shop.kind.policies), TESTER)
    state = await shop.house.load_state()
    assert state.open is not None
    attempt, use = AttemptRef(1, "1.2", state.open.attempt), state.open.tools[0]
    approved = compute_digest('{"what":"nail"}')
    for ran in (None, use.asked.digest):
        done = await shop.house.sessions.handle(TENANT, "s", StartTool(attempt, use, ran), TESTER)
        assert done.events == ()
    start = StartTool(attempt, use, approved)
    done = await shop.house.sessions.handle(TENANT, "s", start, TESTER)
    assert [each.ran for each in shop.list_events(ToolStarted)] == [approved]
    assert len(done.events) == 1


async def test_turn_with_pending_approval_is_not_claimed() -> None:
    shop = await open_guarded_loop()
    await submit_until_pause(shop, PAY)
    attempts = len(shop.list_events(AttemptStarted))
    claim = ClaimTurn(1, "w9", shop.kind.policies)
    assert (await shop.house.sessions.handle(TENANT, "s", claim, TESTER)).events == ()
    await shop.house.run_turn(await decide(shop, "approve"))
    assert (attempts, len(shop.list_events(AttemptStarted))) == (1, 2)


async def test_no_approval_is_requested_for_tool_call_with_invalid_arguments() -> None:
    shop = await open_guarded_loop()
    await shop.run_turn(build_tool_script(("shop_pay", "no JSON")), ["I could not pay."])
    assert shop.list_events(ApprovalRequested) == []
    assert [each.outcome for each in shop.list_events(ToolReturned)] == ["refused"]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (DecideApproval(turn=1, approval=2, decision="approve"), "unknown-approval"),
        (DecideApproval(turn=2, approval=1, decision="approve"), "unknown-turn"),
        (DecideApproval(turn=1, approval=1, decision="refuse"), "approval-decided"),
    ],
)
async def test_invalid_approval_decision_is_refused(command: DecideApproval, code: str) -> None:
    shop = await open_guarded_loop()
    await submit_until_pause(shop, PAY)
    await decide(shop, "approve")
    with pytest.raises(Refused) as refused:
        await shop.house.sessions.handle(TENANT, "s", command, TESTER)
    assert refused.value.code == code


async def test_repeated_approval_decision_appends_no_event() -> None:
    shop = await open_guarded_loop()
    await submit_until_pause(shop, PAY)
    await decide(shop, "approve")
    again = DecideApproval(turn=1, approval=1, decision="approve", reason="once more")
    done = await shop.house.sessions.handle(TENANT, "s", again, TESTER)
    assert done.events == ()


async def test_approval_decision_after_deadline_or_close_is_refused() -> None:
    shop = await open_guarded_loop(approval_seconds=60)
    await submit_until_pause_for(shop, 60)
    shop.house.clock.advance_time(61)
    with pytest.raises(Refused) as overdue:
        await decide(shop, "approve")
    await shop.house.sessions.handle(TENANT, "s", CloseSession("enough"), TESTER)
    with pytest.raises(Refused) as closed:
        await decide(shop, "approve")
    assert (overdue.value.code, closed.value.code) == ("approval-overdue", "session-closed")


async def test_turn_fails_if_tool_to_approve_is_unknown_to_its_server() -> None:
    servers = {"shop": {"command": ["shop"], "approve": ["pay", "refund"]}}
    shop = await open_loop(tools={"servers": servers})
    await shop.run_turn(["Hello."])
    (failed,) = shop.list_events(TurnFailed)
    assert (failed.code, failed.retryable) == ("tools_unknown", False)
    assert "refund" in failed.detail
    assert "pay" not in failed.detail


async def test_all_tools_of_a_server_may_require_approval() -> None:
    servers = {"shop": {"command": ["shop"], "approve": ["all"]}}
    shop = await open_loop(tools={"servers": servers})
    await submit_until_pause(shop, LOOK, PAY)
    assert len(shop.list_events(ApprovalRequested)) == 2


async def test_plan_step_refused_by_a_person_is_not_retried() -> None:
    kind = build_agent_blueprint(tools=GUARDED_TOOLS)
    shop = await AgentHarness(FakeToolServer(), kind=kind).open_session()
    shop.house.model.scripts = [*TWO_STEP_SCRIPTS]
    submitted = await shop.house.submit_turn("Get me a hammer.")
    assert await shop.house.run_turn(submitted) == DeliveryDeferred(0)
    decided = await decide(shop, "refuse")
    assert await shop.house.run_turn(decided) == DeliverySettled()
    assert len(shop.house.model.requests) == 4
    assert [tool for tool, _ in shop.shop.tool_calls] == ["look"]
    assert len(shop.list_events(TurnCompleted)) == 1


async def test_worker_with_stale_state_defers_turn_with_pending_approval() -> None:
    shop = await open_guarded_loop()
    worker = shop.house.build_worker("w3")
    shop.house.model.scripts = [build_tool_script(PAY), ["Done."]]
    submitted = await shop.house.submit_turn("Get me a hammer.")
    delivery = build_delivery(submitted)
    # It has folded the turn as it was submitted, and has not seen what became of it
    await worker.sessions.load_state(TENANT, "s")
    await shop.house.run_turn(submitted)
    verdict = await worker.run_turn(delivery)
    assert isinstance(verdict, DeliveryDeferred)
    assert shop.shop.tool_calls == []


@pytest.mark.parametrize(
    ("arguments", "detail"),
    [
        ('{"what": 7}', 'its arguments break its schema: what: `type` is "string"'),
        ('{"what": "hammer", "what": "house"}', MALFORMED_DETAIL),
        ('{"what": "hammer", "of": [{"a": 1, "a": 2}]}', MALFORMED_DETAIL),
    ],
)
async def test_no_person_is_asked_about_arguments_that_cannot_run_as_they_are_shown(
    arguments: str, detail: str
) -> None:
    shop = await open_guarded_loop()
    shop.house.model.scripts = [build_tool_script(("shop_pay", arguments)), ["Done."]]
    submitted = await shop.house.submit_turn("Get me a hammer.")
    assert await shop.house.run_turn(submitted) == DeliverySettled()
    (returned,) = shop.list_events(ToolReturned)
    assert (returned.outcome, returned.detail) == ("refused", detail)
    assert shop.shop.tool_calls == []
    assert shop.list_events(ApprovalRequested) == []


async def test_arguments_that_break_a_schema_reach_a_server_that_needs_no_approval() -> None:
    shop = await open_guarded_loop()
    shop.house.model.scripts = [build_tool_script(("shop_look", '{"what": 7}')), ["Done."]]
    submitted = await shop.house.submit_turn("Get me a hammer.")
    assert await shop.house.run_turn(submitted) == DeliverySettled()
    assert shop.shop.tool_calls == [("look", {"what": 7})]
