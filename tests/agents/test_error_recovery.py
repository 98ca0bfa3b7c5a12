"""U16: a step whose tools all failed is attempted once more, and then skipped."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.agents.platform import Platform, plans, says, takes
from tests.agents.workshop import Shop, Workshop, agent, planning, taking
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.tool_events import ToolCalled, ToolReturned
from turnlog.events.model.turn_events import TurnCompleted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, encode_blueprint
from turnlog.services.platform.concurrency import cancel_tasks
from turnlog.services.worker.tools.tool_servers import ToolServerFailure

pytestmark = pytest.mark.asyncio(loop_scope="module")
LOOK = ("shop_look", '{"what": "hammer"}')
PAY = ("shop_pay", "{}")
FAILED = 'shop_look {"what": "hammer"}\n  failed: the shelf is locked'


def recovering() -> Blueprint:
    """Give the agent with words of its own for a step that failed."""
    words = json.loads(encode_blueprint(agent()))
    words["layers"]["again"] = {"text": "Try another way.", "when": "step_failed"}
    words["calls"]["tactic"]["messages"][0]["system"].append("again")
    return agent(layers=words["layers"], calls=words["calls"])


async def test_u16_a_step_whose_tools_all_failed_is_taken_once_more_with_what_failed(
    platform: Platform,
) -> None:
    platform.shop.fails = ["look"]
    session, look = await platform.open(recovering()), takes(("shop_look", {"what": "hammer"}))
    await platform.turn(session, plans(("Find it.", ["shop_look"])), look, look, says("There."))
    assert platform.said(1)[0] == "Find it."
    assert platform.said(2)[0] == f"Find it.\n\n{FAILED}\n\nTry another way."
    assert platform.said(3)[0].startswith(f"Plan first.\n\n{FAILED}\n")
    kinds = [each["kind"] for each in await platform.calls(session)]
    assert kinds == ["plan", "tactic", "tactic", "synthesise"]
    assert [each.step for each in await platform.events(session, ToolCalled)] == [1, 1]
    why = await platform.get(f"/v1/sessions/{session}/calls/1.3/why")
    (again,) = [each for each in why["parts"] if each["part"]["layer"] == "again"]
    assert [each["event"] for each in again["because"]] == ["tool-returned"]


async def test_a_step_that_fails_twice_is_let_be_and_the_reply_is_told() -> None:
    shop = await Workshop(kind=recovering()).opened()
    shop.shop.fails = ["look", "look"]
    plan = planning(("Find it.", ["shop_look"]), ("Pay.", []))
    await shop.turn(plan, taking(LOOK), taking(LOOK), taking(PAY), ["No luck."])
    assert [each.step for each in shop.events(ToolCalled)] == [1, 1, 2]
    assert shop.said(3)[0].count(FAILED) == shop.said(4)[0].count(FAILED) == 2
    assert "Try another way." not in shop.said(3)[0]
    assert len(shop.events(TurnCompleted)) == 1


async def test_the_next_step_that_fails_has_its_own_second_try() -> None:
    shop = await Workshop().opened()
    shop.shop.fails = ["look", "pay"]
    plan = planning(("Find it.", []), ("Pay.", []))
    await shop.turn(plan, *(taking(each) for each in (LOOK, LOOK, PAY, PAY)), ["Done."])
    assert [each.step for each in shop.events(ToolCalled)] == [1, 1, 2, 2]


async def test_one_tool_that_did_its_work_is_enough() -> None:
    shop = await Workshop().opened()
    shop.shop.fails = ["pay"]
    await shop.turn(planning(("Buy it.", [])), taking(LOOK, PAY), ["Looked."])
    assert [each.outcome for each in shop.events(ToolReturned)] == ["answered", "failed"]
    assert len(shop.events(ContextAssembled)) == 3


BROKEN_OFF = (TimeoutError(), ToolServerFailure("tools_failed", "shop: it broke off"))
UNREACHABLE = ToolServerFailure("tools_unreachable", "shop: nobody listens at its address")


async def failing(error: Exception, tool: tuple[str, str], *, taken: int) -> Workshop:
    """Run a turn of one step whose tool raises `error` in each of `taken` attempts."""
    shop = await Workshop().opened()

    async def cut_off() -> None:
        raise error

    shop.shop.meanwhile = cut_off
    await shop.turn(planning(("Do it.", [])), *[taking(tool)] * taken, ["Perhaps."])
    return shop


@pytest.mark.parametrize("error", BROKEN_OFF, ids=["too slow", "broken off"])
async def test_a_tool_that_may_have_been_done_and_may_not_run_again_is_lost(
    error: Exception,
) -> None:
    shop = await failing(error, PAY, taken=1)
    (returned,) = shop.events(ToolReturned)
    assert returned.outcome == "lost"
    assert returned.text.text.endswith("; it may have been done")
    assert [tool for tool, _ in shop.shop.asked] == ["pay"]
    assert returned.text.text in shop.said(2)[0]


@pytest.mark.parametrize("error", BROKEN_OFF, ids=["too slow", "broken off"])
async def test_one_that_may_run_again_has_failed_and_its_step_is_taken_once_more(
    error: Exception,
) -> None:
    shop = await failing(error, LOOK, taken=2)
    assert [each.outcome for each in shop.events(ToolReturned)] == ["failed", "failed"]
    assert shop.said(2)[0].endswith("; it may have been done")


@pytest.mark.parametrize(("tool", "runs"), [(PAY, ["pay"]), (LOOK, ["look", "look"])])
async def test_what_gave_too_much_is_asked_for_once_more_only_if_it_may_run_again(
    tool: tuple[str, str], runs: list[str]
) -> None:
    servers = {"shop": {"command": ["shop"], "idempotent": ["look"]}}
    kind = agent(tools={"servers": servers, "most_bytes": 1_000})
    shop = await Workshop(Shop(gives="much " * 1_000), kind=kind).opened()
    await shop.turn(planning(("Do it.", [])), *[taking(tool)] * len(runs), ["So."])
    assert [tool for tool, _ in shop.shop.asked] == runs
    assert "it was done, but its result has 5000 bytes, 1000 are allowed" in shop.said(2)[0]


async def test_one_whose_server_is_not_reached_has_failed_since_nothing_was_asked() -> None:
    shop = await failing(UNREACHABLE, PAY, taken=2)
    assert [each.outcome for each in shop.events(ToolReturned)] == ["failed", "failed"]
    assert "may have been done" not in shop.said(2)[0]


async def test_what_may_have_been_done_is_not_done_again() -> None:
    shop, begun = await Workshop().opened(), asyncio.Event()

    async def dying() -> None:
        begun.set()
        await asyncio.Event().wait()

    shop.shop.meanwhile = dying
    shop.house.model.scripts = [planning(("Pay.", [])), taking(PAY), ["Perhaps."]]
    submitted = await shop.house.submit("Pay!")
    working = asyncio.create_task(shop.house.answer(submitted))
    await begun.wait()
    await cancel_tasks(working)
    await shop.taken_over(submitted)
    assert [each.outcome for each in shop.events(ToolReturned)] == ["lost"]
    kinds = [each.manifest.kind for each in shop.events(ContextAssembled)]
    assert kinds == ["plan", "tactic", "synthesise"]
