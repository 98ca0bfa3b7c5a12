"""Tools with large schemas in the shipped `uderia`: no turn fails for them after its tools ran.

The tool server is that of the tests, with offers of its own.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import JsonValue

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.agent_programs.shipped.test_plans import list_plan_repairs
from turnlog.events.model.tool_events import StepPlanned, ToolReturned, ToolsSnapshotted
from turnlog.projections.tools.tool_catalog import ToolOffer

pytestmark = pytest.mark.asyncio(loop_scope="module")


LOOK = answer_with_tool_calls(("harbour_look", {"what": "boats"}))


def build_offer(tool: str, tokens: int) -> ToolOffer:
    """Return a tool whose definition has about so many tokens."""
    ports: list[JsonValue] = [f"port {number} of the coast" for number in range(tokens // 7)]
    field: JsonValue = {"type": "string", "enum": ports}
    return ToolOffer(
        tool=tool,
        description="Charters a boat.",
        schema={"type": "object", "properties": {"port": field}},
    )


async def open_harbour_session(platform: AgentService, *offers: ToolOffer) -> str:
    platform.shop.extra_offers = offers
    return await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")


def list_offered(prompt: dict[str, Any]) -> list[str]:
    """Return the tools that are sent beside a prompt."""
    return [each["layer"] for each in prompt["manifest"]["parts"] if each.get("role") == "tools"]


async def test_u12_tool_too_large_for_any_call_is_not_offered_and_reason_is_recorded(
    platform: AgentService,
) -> None:
    session = await open_harbour_session(platform, build_offer("charter", 10_000))
    plan = answer_with_plan(("Look.", ["harbour_look"]), ("Charter one.", ["harbour_charter"]))
    none, reply = answer_with_text("There is no such tool."), answer_with_text("I cannot.")
    await platform.complete_turn(session, plan, LOOK, none, reply, text="Get me a boat.")
    (taken,) = await platform.load_events(session, ToolsSnapshotted)
    assert {*taken.tools} == {"harbour_look", "harbour_pay"}
    reason = taken.left_out["harbour_charter"]
    assert reason.startswith("its description has 1")
    assert reason.endswith(" tokens, and a call has room for 5300")
    assert await list_plan_repairs(platform, session) == (
        "steps.1: there is no tool 'harbour_charter'",
    )
    assert "charter" not in str((await platform.fetch_prompt(session, "1.1"))["messages"])
    assert list_offered(await platform.fetch_prompt(session, "1.3")) == [*taken.tools]


@pytest.mark.parametrize("named", [["harbour_charter", "harbour_ferry"], []])
async def test_u12_tools_of_a_later_step_are_cut_to_what_fits_its_call(
    platform: AgentService, named: list[str]
) -> None:
    offers = build_offer("charter", 4_000), build_offer("ferry", 4_000)
    session = await open_harbour_session(platform, *offers)
    charter = answer_with_tool_calls(("harbour_charter", {"port": "port 1 of the coast"}))
    plan = answer_with_plan(("Look.", ["harbour_look"]), ("Charter one.", named))
    reply = answer_with_text("It is done.")
    await platform.complete_turn(session, plan, LOOK, charter, reply, text="Get me a boat.")
    returned = await platform.load_events(session, ToolReturned)
    assert [(each.tool, each.outcome) for each in returned] == [
        *(("harbour_look", "answered"), ("harbour_charter", "answered"))
    ]
    small = ["harbour_look", "harbour_pay"] * (not named)
    steps = await platform.load_events(session, StepPlanned)
    assert [[*each.tools] for each in steps] == [["harbour_look"], [*small, "harbour_charter"]]
    (repair,) = await list_plan_repairs(platform, session)
    left_out = r"steps\.1: harbour_ferry with 4\d{3} tokens left out"
    assert re.fullmatch(rf"{left_out}, a call of the step has room for \d{{4}}", repair)
    prompt = await platform.fetch_prompt(session, "1.3")
    assert list_offered(prompt) == [*small, "harbour_charter"]
    assert prompt["verified"]
    assert prompt["manifest"]["tokens"] <= 8_000
    report = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert report["verified"], report
