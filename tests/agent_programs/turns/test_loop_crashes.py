"""A worker dies before or after every append of a turn of the `loop` program."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any, Literal

import pytest

from tests.agent_programs.agent_harness import AgentHarness, RoundKeyedModel, open_loop
from tests.agent_programs.approvals.test_approvals import GUARDED_TOOLS, decide
from tests.agent_programs.turns.test_turn_crashes import (
    WHEN,
    CrashingLog,
    build_crashing_worker,
    run_crashing_turn,
)
from tests.support.sessions.session_harness import build_delivery
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.content import get_plain_text
from turnlog.events.model.call_events import CallCompleted, ContextAssembled
from turnlog.events.model.tool_events import (
    ApprovalDecided,
    ApprovalDecision,
    ApprovalRequested,
    ToolCalled,
    ToolReturned,
    ToolStarted,
)
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.audit.verify.approval_checks import (
    check_approvals,
    check_approved_arguments,
)
from turnlog.projections.session.open_turn import list_undecided_tools

APPENDS = 12
"""The number of appends of the turn in these tests."""


async def crash_loop(at: int, when: Literal["before", "after"]) -> tuple[AgentHarness, bool]:
    shop = await open_loop()
    return shop, await run_crashing_turn(shop, at, when, RoundKeyedModel)


@pytest.mark.parametrize("at", range(1, APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
async def test_loop_resumes_from_the_log_after_a_crash(
    at: int, when: Literal["before", "after"]
) -> None:
    shop, died = await crash_loop(at, when)
    assert died
    answered = Counter(each.call for each in shop.list_events(CallCompleted))
    assert set(answered.values()) == {1}
    assert len(shop.list_events(ContextAssembled)) == len(answered) == 3
    assert len(shop.list_events(TurnCompleted)) == 1
    assert [tool for tool, _ in shop.shop.tool_calls].count("pay") <= 1
    came_back = Counter((each.call, each.id) for each in shop.list_events(ToolReturned))
    assert came_back == Counter((each.call, each.id) for each in shop.list_events(ToolCalled))
    assert set(came_back.values()) == {1}
    reasoned = [get_plain_text(each.reasoning) for each in shop.list_events(CallCompleted)]
    assert reasoned == [f'{{"reasoning_content":"Round {n}."}}' for n in (1, 2, 3)]
    asked = [each for each in shop.house.model.requests[-1].messages if "tool_calls" in each]
    assert [each["reasoning_content"] for each in asked] == ["Round 1.", "Round 2."]


async def test_crash_points_cover_every_append_of_a_loop() -> None:
    _, died = await crash_loop(APPENDS + 1, "before")
    assert not died


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_payment_with_unknown_outcome_is_reported_to_the_model_as_lost() -> None:
    outcomes = set[str]()
    for at in range(1, APPENDS + 1):
        shop, _ = await crash_loop(at, "after")
        paid = [each for each in shop.list_events(ToolReturned) if each.tool == "shop_pay"]
        outcomes |= {each.outcome for each in paid}
        if any(each.outcome == "lost" for each in paid):
            assert "lost" in str(shop.house.model.requests[-1].messages[-1]["content"])
    assert outcomes == {"answered", "lost"}


APPROVED_APPENDS = 13
"""The number of appends of workers in a turn whose payment is approved."""


async def crash_approved_loop(
    at: int,
    when: Literal["before", "after"],
    decision: ApprovalDecision = "approve",
    edited: str | None = None,
) -> tuple[AgentHarness, bool]:
    """Let a worker die in a turn that waits for an approval, and another do what is left."""
    shop = await open_loop(tools=GUARDED_TOOLS)
    house, mortal = shop.house, CrashingLog(log=shop.house.log, fatal=at, when=when)
    house.model = RoundKeyedModel()
    worker = build_crashing_worker(house, mortal, "w1")
    delivery = build_delivery(submitted := await house.submit_turn("Get me a hammer."))
    while (await house.load_state()).open:
        await run_until_dead(worker.run_turn(delivery), mortal)
        if mortal.dead.is_set():
            worker = house.build_worker("w2")
            house.tokens.clear_all()
        delivery = build_delivery(submitted, redelivered=True)
        if list_undecided_tools((await house.load_state()).open):
            delivery = build_delivery(await decide(shop, decision, edited=edited))
    return shop, mortal.dead.is_set()


async def run_until_dead(turn: Coroutine[Any, Any, object], mortal: CrashingLog) -> None:
    """Run a turn until its worker gives it up or dies, which it does once."""
    working = asyncio.create_task(turn)
    dying = asyncio.create_task(mortal.dead.wait())
    waited = {working} if mortal.dead.is_set() else {working, dying}
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        working.result()
    await cancel_tasks(working, dying)


@pytest.mark.parametrize("at", range(1, APPROVED_APPENDS + 1))
@pytest.mark.parametrize("when", WHEN)
async def test_approved_tool_runs_at_most_once_and_only_after_its_approval(
    at: int, when: Literal["before", "after"]
) -> None:
    shop, died = await crash_approved_loop(at, when)
    assert died
    assert len(shop.list_events(ApprovalRequested)) == len(shop.list_events(ApprovalDecided)) == 1
    assert [*check_approvals(shop.house.list_events())] == []
    assert [tool for tool, _ in shop.shop.tool_calls].count("pay") <= 1
    answered = Counter(each.call for each in shop.list_events(CallCompleted))
    assert answered == {"1.1": 1, "1.2": 1, "1.3": 1}
    assert len(shop.list_events(TurnCompleted)) == 1
    came_back = Counter((each.call, each.id) for each in shop.list_events(ToolReturned))
    assert came_back == Counter((each.call, each.id) for each in shop.list_events(ToolCalled))


async def test_crash_points_cover_every_append_of_an_approved_loop() -> None:
    _, died = await crash_approved_loop(APPROVED_APPENDS + 1, "before")
    assert not died


@pytest.mark.parametrize("when", WHEN)
async def test_edited_arguments_run_at_most_once_and_no_others_wherever_a_worker_dies(
    when: Literal["before", "after"],
) -> None:
    edited, outcomes = '{"what":"nail"}', Counter[str]()
    for at in range(1, APPROVED_APPENDS + 1):
        shop, died = await crash_approved_loop(at, when, edited=edited)
        assert died
        paid = [arguments for tool, arguments in shop.shop.tool_calls if tool == "pay"]
        assert paid in ([], [{"what": "nail"}])
        events = shop.house.list_events()
        assert [*check_approvals(events), *check_approved_arguments(events)] == []
        (ended,) = [each for each in shop.list_events(ToolReturned) if each.tool == "shop_pay"]
        outcomes[ended.outcome] += 1
        assert (paid == [{"what": "nail"}]) or ended.outcome == "lost"
        assert (await shop.house.load_state()).open is None
    assert outcomes["answered"] > outcomes["lost"]


async def test_refused_tool_never_runs_wherever_a_worker_dies() -> None:
    for at in range(1, APPROVED_APPENDS):
        shop, died = await crash_approved_loop(at, "after", "refuse")
        assert died
        assert [tool for tool, _ in shop.shop.tool_calls if tool == "pay"] == []
        assert [each.tool for each in shop.list_events(ToolStarted)].count("shop_pay") == 0
        assert len(shop.list_events(TurnCompleted)) == 1
