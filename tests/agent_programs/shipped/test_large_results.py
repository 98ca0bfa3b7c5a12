"""Large and legal tool results in the shipped `uderia`: no turn fails after its tools ran.

The tool server is that of the tests. A result of at most 10,000 characters is not distilled as it
returns, so the prompts of one turn must make room for several of them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from turnlog.events.model.tool_events import ToolReturned

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROSE = ("It blew from the north and the boats stayed in. " * 210)[:9_900]

TABLE = json.dumps([{"ship": f"S{n}", "late": n * 7, "port": f"P{n % 9}"} for n in range(240)])[
    :9_900
]

DENSE = ("7f3a-91c2;" * 990)[:9_900]


async def run_tool_turn(
    platform: AgentService, session: str, *results: str, text: str = "How late were they?"
) -> dict[str, Any]:
    """Run a turn whose only step calls a tool once for each result; return its last prompt."""
    platform.shop.results = [*results]
    calls = [("harbour_look", {"what": f"boat {n}"}) for n in range(len(results))]
    await platform.complete_turn(
        session,
        answer_with_plan(("Look at all boats.", ["harbour_look"])),
        answer_with_tool_calls(*calls),
        answer_with_text("Very late."),
        text=text,
    )
    turns = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    return await platform.fetch_prompt(session, f"{len(turns)}.3")


def list_results(prompt: dict[str, Any]) -> list[dict[str, Any]]:
    parts = prompt["manifest"]["parts"]
    return [each for each in parts if each["layer"] == "step_results"]


def list_rules(prompt: dict[str, Any]) -> list[str | None]:
    return [each["rule"] for each in list_results(prompt)]


async def open_working_session(platform: AgentService) -> str:
    return await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")


async def test_single_result_below_the_distillation_limit_is_included_whole(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform)
    prompt = await run_tool_turn(platform, session, PROSE)
    assert list_rules(prompt) == [None]
    assert PROSE in prompt["messages"][0]["content"]


@pytest.mark.parametrize("result", [PROSE, TABLE, DENSE], ids=["prose", "table", "dense"])
async def test_four_results_of_9900_characters_leave_room_for_the_reply(
    platform: AgentService, result: str
) -> None:
    session = await open_working_session(platform)
    prompt = await run_tool_turn(platform, session, *[result] * 4)
    manifest = prompt["manifest"]
    assert manifest["tokens"] <= 8_000
    measured = [each["tokens"] for each in list_results(prompt)]
    assert sum(measured) <= 4_000, "what their component may have"
    assert set(list_rules(prompt)) <= {None, "condense_results summary"}
    assert {(each["step"], each["component"]) for each in manifest["steps"]} == {
        ("condense_results", "results")
    }


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_many_results_are_condensed_to_samples_and_then_to_name_and_digest(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform)
    platform.shop.results = [DENSE] * 48
    calls = [("harbour_look", {"what": f"boat {n}"}) for n in range(16)]
    await platform.complete_turn(
        session,
        answer_with_plan(*[("Look at boats.", ["harbour_look"])] * 3),
        *[answer_with_tool_calls(*calls)] * 3,
        answer_with_text("Very late."),
    )
    first = (await platform.load_events(session, ToolReturned))[0]
    assert first.result is not None
    named = f'harbour_look {{"what": "boat 0"}}: 9900 characters, kept as {first.result[:19]}'
    tactic, reply = [await platform.fetch_prompt(session, call) for call in ("1.3", "1.5")]
    assert set(list_rules(tactic)) == {"condense_results summary", "condense_results sample"}
    assert "condense_results digest" in list_rules(reply)
    assert named in reply["messages"][0]["content"]
    assert reply["manifest"]["tokens"] <= 8_000


async def test_sixteen_prior_results_fit_the_next_plan(
    platform: AgentService,
) -> None:
    session = await open_working_session(platform)
    await run_tool_turn(platform, session, *[DENSE] * 16)
    await platform.complete_turn(
        session,
        answer_with_plan(("Take what is there.", [])),
        answer_with_text("None."),
        answer_with_text("Still late."),
        text="And today?",
    )
    manifest = (await platform.fetch_prompt(session, "2.1"))["manifest"]
    told = [each["tokens"] for each in manifest["parts"] if each["layer"] == "hydration"]
    assert 0 < sum(told) <= 1_000
