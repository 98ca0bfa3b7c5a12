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


def list_left_out(prompt: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Return the tools that a prompt has no room for, with their rule and what they would take."""
    parts = [each for each in prompt["manifest"]["parts"] if each.get("treatment") == "dropped"]
    return [(each["layer"], each["rule"], each["saved"]) for each in parts if each.get("saved")]


async def open_crowded_session(
    platform: AgentService, *sizes: int, blueprint: str = "agent"
) -> str:
    """Open a session of the shipped `agent` with a tool of each size beside two small ones."""
    offers = [build_offer(f"ferry_{number}", size) for number, size in enumerate(sizes)]
    platform.shop.extra_offers = tuple(offers)
    attributes = {"instructions": "Be brief."}
    return await platform.open_shipped_session(blueprint, attributes=attributes)


SMALL = ["harbour_look", "harbour_pay"]


@pytest.mark.parametrize(
    ("sizes", "left_out"),
    [
        pytest.param([3_000] * 4, [], id="room for all"),
        pytest.param([3_000] * 8, [6, 7], id="as few as suffice, the last of equal ones"),
        pytest.param([2_000, 9_000, 4_000, 1_000, 2_500], [3], id="the smallest that suffices"),
        pytest.param([1_000, 9_000, 9_000, 1_000], [2], id="one large before two small ones"),
    ],
)
async def test_tools_without_room_together_are_left_out_and_the_turn_goes_on(
    platform: AgentService, sizes: list[int], left_out: list[int]
) -> None:
    session = await open_crowded_session(platform, *sizes)
    await platform.complete_turn(session, LOOK, answer_with_text("It is calm."), text="Any boats?")
    kept = [f"harbour_ferry_{n}" for n in range(len(sizes)) if n not in left_out]
    for call in ("1.1", "1.2"):
        prompt = await platform.fetch_prompt(session, call)
        assert prompt["verified"]
        manifest = prompt["manifest"]
        assert list_offered(prompt) == [*SMALL, *kept]
        dropped = list_left_out(prompt)
        assert [name for name, _, _ in dropped] == [f"harbour_ferry_{n}" for n in left_out]
        assert {rule for _, rule, _ in dropped} <= {"leave_out_tool"}
        steps = [each for each in manifest["steps"] if each["step"] == "leave_out_tool"]
        assert [(each["on"], each["before"] - each["after"]) for each in steps] == [
            (name, tokens) for name, _, tokens in dropped
        ]
        assert manifest["tokens"] == sum(each["tokens"] for each in manifest["parts"])
        assert manifest["tokens"] <= manifest["budget"] == 16_000
    assert platform.list_offered_tools()[-1] == [*SMALL, *kept]
    report = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "reproduced"), report


async def test_why_and_diff_name_the_tools_that_had_no_room(platform: AgentService) -> None:
    session = await open_crowded_session(platform, 9_000, 3_000)
    await platform.complete_turn(session, answer_with_text("It is calm."), text="Any boats?")
    question = "Any ferries? " * 2_000
    await platform.complete_turn(session, answer_with_text("Late."), text=question)
    assert list_left_out(await platform.fetch_prompt(session, "1.1")) == []
    second = await platform.fetch_prompt(session, "2.1")
    ((name, _, tokens),) = list_left_out(second)
    assert name == "harbour_ferry_1"
    explained = await platform.fetch_json(f"/v1/sessions/{session}/turns/2/why")
    (left_out,) = [each for each in explained["parts"] if each["part"]["rule"] == "leave_out_tool"]
    assert left_out["part"]["layer"] == name
    assert [each["event"] for each in left_out["by"]] == ["tools-snapshotted"]
    assert [each["event"] for each in left_out["because"]] == ["context-assembled"]
    difference = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/diff/2.1")
    (change,) = [each for each in difference["changes"] if each["layer"] == name]
    assert (change["what"], tokens) == ("removed", 2583)
    assert "leave_out_tool" in str(change)


async def test_tool_that_the_turn_has_called_stays_and_one_without_room_cannot_be_called(
    platform: AgentService,
) -> None:
    """The one that was called would be the first to go by its size."""
    session = await open_crowded_session(platform, 5_000, 6_000, 6_000)
    port = {"port": "port 1 of the coast", "note": "Today, please. " * 20}
    platform.shop.results = ["Ferry 7 sails at " + "ten, or so. " * 1_000]
    await platform.complete_turn(
        session,
        answer_with_tool_calls(("harbour_ferry_0", port)),
        answer_with_tool_calls(("harbour_ferry_2", port)),
        answer_with_text("At ten."),
        text="Which ferry? " * 360,
    )
    first, second = [await platform.fetch_prompt(session, f"1.{number}") for number in (1, 2)]
    assert list_left_out(first) == []
    assert [name for name, _, _ in list_left_out(second)] == ["harbour_ferry_2"]
    returned = await platform.load_events(session, ToolReturned)
    assert [(each.tool, each.outcome) for each in returned] == [
        ("harbour_ferry_0", "answered"),
        ("harbour_ferry_2", "refused"),
    ]
    assert returned[1].detail == "no tool 'harbour_ferry_2' was offered"


async def test_prompt_that_is_too_long_without_any_tool_is_refused_with_its_sizes(
    platform: AgentService,
) -> None:
    session = await open_crowded_session(platform, 3_000, 3_000)
    settled = await platform.submit_turn(session, text="Any boats? " * 6_500)
    assert (settled["status"], settled["reason"]) == ("failed", "over-budget")
    assert platform.bodies == []


@pytest.mark.slow("a turn is retried over HTTP")
async def test_rejected_answer_without_room_is_left_out_before_any_tool(
    platform: AgentService,
) -> None:
    """So it was before tools could be left out, and calls on record are reproduced."""
    form = "output: {schema: {type: object, required: [time]}, repair: tell}"
    edits = {"    budget: window": f"    budget: window\n    {form}"}
    platform.copy_shipped_blueprint("agent", "agent-formed", edits)
    session = await open_crowded_session(platform, 9_000, 9_000, blueprint="agent-formed")
    rejected = answer_with_text('{"place": "' + "harbour " * 400 + '"}')
    await platform.complete_turn(
        session, rejected, answer_with_text('{"time": "ten"}'), text="Which ferry? " * 30
    )
    (call,) = await platform.list_calls(session)  # The second attempt has the prompt of the first
    prompt = await platform.fetch_prompt(session, call["call"])
    assert list_offered(prompt) == [*SMALL, "harbour_ferry_0", "harbour_ferry_1"]
    assert list_left_out(prompt) == []
    assert platform.list_offered_tools()[-1] == list_offered(prompt)
