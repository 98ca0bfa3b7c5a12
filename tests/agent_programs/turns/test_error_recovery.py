"""U16: a step whose tools all failed is attempted once more, and then skipped."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.agent_programs.agent_harness import (
    AgentHarness,
    FakeToolServer,
    build_agent_blueprint,
    build_plan_script,
    build_tool_script,
)
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from turnlog.events.async_tasks import cancel_tasks
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint
from turnlog.services.worker.tools.tool_server_types import ToolServerFailure

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOOK = ("shop_look", '{"what": "hammer"}')

PAY = ("shop_pay", "{}")

FAILED = 'shop_look {"what": "hammer"}\n  failed: the shelf is locked'


def build_recovering_agent() -> Blueprint:
    """Give the agent with words of its own for a step that failed."""
    words = json.loads(encode_blueprint(build_agent_blueprint()))
    words["layers"]["again"] = {"text": "Try another way.", "when": "step_failed"}
    words["calls"]["tactic"]["messages"][0]["system"].append("again")
    return build_agent_blueprint(layers=words["layers"], calls=words["calls"])


async def test_u16_step_is_retried_once_with_the_failures_if_all_its_tools_failed(
    platform: AgentService,
) -> None:
    platform.shop.failing_tools = ["look"]
    session, look = (
        await platform.open_session(build_recovering_agent()),
        answer_with_tool_calls(("shop_look", {"what": "hammer"})),
    )
    await platform.complete_turn(
        session,
        answer_with_plan(("Find it.", ["shop_look"])),
        look,
        look,
        answer_with_text("There."),
    )
    assert platform.get_request_texts(1)[0] == "Find it."
    assert platform.get_request_texts(2)[0] == f"Find it.\n\n{FAILED}\n\nTry another way."
    assert platform.get_request_texts(3)[0].startswith(f"Plan first.\n\n{FAILED}\n")
    kinds = [each["kind"] for each in await platform.list_calls(session)]
    assert kinds == ["plan", "tactic", "tactic", "synthesise"]
    assert [each.step for each in await platform.load_events(session, ToolCalled)] == [1, 1]
    explanation = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.3/why")
    (again,) = [each for each in explanation["parts"] if each["part"]["layer"] == "again"]
    assert [each["event"] for each in again["because"]] == ["tool-returned"]


async def test_step_that_fails_twice_is_skipped_and_reply_includes_the_failures() -> None:
    shop = await AgentHarness(kind=build_recovering_agent()).open_session()
    shop.shop.failing_tools = ["look", "look"]
    plan = build_plan_script(("Find it.", ["shop_look"]), ("Pay.", []))
    await shop.run_turn(
        plan, build_tool_script(LOOK), build_tool_script(LOOK), build_tool_script(PAY), ["No luck."]
    )
    assert [each.step for each in shop.list_events(ToolCalled)] == [1, 1, 2]
    assert (
        shop.get_request_texts(3)[0].count(FAILED)
        == shop.get_request_texts(4)[0].count(FAILED)
        == 2
    )
    assert "Try another way." not in shop.get_request_texts(3)[0]
    assert len(shop.list_events(TurnCompleted)) == 1


async def test_each_failing_step_has_its_own_retry() -> None:
    shop = await AgentHarness().open_session()
    shop.shop.failing_tools = ["look", "pay"]
    plan = build_plan_script(("Find it.", []), ("Pay.", []))
    await shop.run_turn(
        plan, *(build_tool_script(each) for each in (LOOK, LOOK, PAY, PAY)), ["Done."]
    )
    assert [each.step for each in shop.list_events(ToolCalled)] == [1, 1, 2, 2]


async def test_step_with_one_successful_tool_is_not_retried() -> None:
    shop = await AgentHarness().open_session()
    shop.shop.failing_tools = ["pay"]
    await shop.run_turn(
        build_plan_script(("Buy it.", [])), build_tool_script(LOOK, PAY), ["Looked."]
    )
    assert [each.outcome for each in shop.list_events(ToolReturned)] == ["answered", "failed"]
    assert len(shop.list_events(ContextAssembled)) == 3


BROKEN_OFF = (TimeoutError(), ToolServerFailure("tools_failed", "shop: it broke off"))

UNREACHABLE = ToolServerFailure("tools_unreachable", "shop: nobody listens at its address")


async def run_failing_step(error: Exception, tool: tuple[str, str], *, taken: int) -> AgentHarness:
    """Run a turn of one step whose tool raises `error` in each of `taken` attempts."""
    shop = await AgentHarness().open_session()

    async def cut_off() -> None:
        raise error

    shop.shop.during_call = cut_off
    await shop.run_turn(
        build_plan_script(("Do it.", [])), *[build_tool_script(tool)] * taken, ["Perhaps."]
    )
    return shop


@pytest.mark.parametrize("error", BROKEN_OFF, ids=["too slow", "broken off"])
async def test_non_idempotent_tool_with_unknown_outcome_is_lost(
    error: Exception,
) -> None:
    shop = await run_failing_step(error, PAY, taken=1)
    (returned,) = shop.list_events(ToolReturned)
    assert returned.outcome == "lost"
    assert returned.text.text.endswith("; it may have been done")
    assert [tool for tool, _ in shop.shop.tool_calls] == ["pay"]
    assert returned.text.text in shop.get_request_texts(2)[0]


@pytest.mark.parametrize("error", BROKEN_OFF, ids=["too slow", "broken off"])
async def test_idempotent_tool_with_unknown_outcome_is_failed_and_its_step_is_retried(
    error: Exception,
) -> None:
    shop = await run_failing_step(error, LOOK, taken=2)
    assert [each.outcome for each in shop.list_events(ToolReturned)] == ["failed", "failed"]
    assert shop.get_request_texts(2)[0].endswith("; it may have been done")


@pytest.mark.parametrize(("tool", "runs"), [(PAY, ["pay"]), (LOOK, ["look", "look"])])
async def test_oversized_result_is_requested_again_only_if_the_tool_is_idempotent(
    tool: tuple[str, str], runs: list[str]
) -> None:
    servers = {"shop": {"command": ["shop"], "idempotent": ["look"]}}
    kind = build_agent_blueprint(tools={"servers": servers, "most_bytes": 1_000})
    shop = await AgentHarness(FakeToolServer(result_text="much " * 1_000), kind=kind).open_session()
    await shop.run_turn(
        build_plan_script(("Do it.", [])), *[build_tool_script(tool)] * len(runs), ["So."]
    )
    assert [tool for tool, _ in shop.shop.tool_calls] == runs
    assert (
        "it was done, but its result has 5000 bytes, 1000 are allowed"
        in shop.get_request_texts(2)[0]
    )


async def test_unreachable_server_fails_the_tool_and_its_step_is_retried() -> None:
    shop = await run_failing_step(UNREACHABLE, PAY, taken=2)
    assert [each.outcome for each in shop.list_events(ToolReturned)] == ["failed", "failed"]
    assert "may have been done" not in shop.get_request_texts(2)[0]


async def test_tool_with_unknown_outcome_is_not_repeated_after_takeover() -> None:
    shop, begun = await AgentHarness().open_session(), asyncio.Event()

    async def dying() -> None:
        begun.set()
        await asyncio.Event().wait()

    shop.shop.during_call = dying
    shop.house.model.scripts = [
        build_plan_script(("Pay.", [])),
        build_tool_script(PAY),
        ["Perhaps."],
    ]
    submitted = await shop.house.submit_turn("Pay!")
    working = asyncio.create_task(shop.house.run_turn(submitted))
    await begun.wait()
    await cancel_tasks(working)
    await shop.take_over_turn(submitted)
    assert [each.outcome for each in shop.list_events(ToolReturned)] == ["lost"]
    kinds = [each.manifest.kind for each in shop.list_events(ContextAssembled)]
    assert kinds == ["plan", "tactic", "synthesise"]
