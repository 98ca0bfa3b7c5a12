"""Long arguments of earlier tool rounds in the prompts of later ones.

Each prompt is also reproduced at the end of a test, in all three ways.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.agent_programs.agent_harness import AgentHarness, build_tool_script, open_loop
from tests.support.sessions.puppet_model import ScriptStep
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.manifest import ArgumentLimits, PromptPart
from turnlog.events.model.turn_events import TurnFailed
from turnlog.services.worker.model.model_types import FinishedAnswer

LONG = "The wind blew. " * 200


async def open_narrow_loop(tokens: int, *forms: str) -> AgentHarness:
    """Open a session whose budget is a number of characters."""
    ladder = [{"condense_results": {"layer": "tool_results", "to": each}} for each in forms]
    budget = {"tokens": tokens, "counter": {"chars_per_token": 1}, "ladder": ladder}
    messages = [{"system": ["rules"]}, {"history": "recent"}, {"user": ["input"]}]
    converse = {"messages": messages, "tools": ["all"], "budget": "window"}
    return await open_loop(calls={"converse": converse}, budget={"window": budget})


def write_look(what: str) -> list[ScriptStep]:
    return build_tool_script(("shop_look", json.dumps({"what": what, "deep": True})))


def read_arguments(shop: AgentHarness, request: int = -1) -> list[dict[str, Any]]:
    """Return the arguments of all tool calls in a request."""
    messages: Any = shop.house.model.requests[request].messages
    calls = [call for each in messages for call in each.get("tool_calls") or ()]
    return [json.loads(call["function"]["arguments"]) for call in calls]


def list_call_parts(shop: AgentHarness, call: int = -1) -> list[PromptPart]:
    manifest = shop.list_events(ContextAssembled)[call].manifest
    return [part for part in manifest.parts if part.role == "tool_call"]


async def test_long_arguments_are_condensed_in_earlier_rounds_and_whole_in_the_latest() -> None:
    shop = await open_narrow_loop(5_000, "sample", "digest")
    await shop.run_turn(write_look(LONG), write_look(LONG), ["Three."])
    assert read_arguments(shop, 1) == [{"what": LONG, "deep": True}]
    first, second = read_arguments(shop)
    left_out = len(LONG) - 60
    assert first == {"what": f"{LONG[:60]}\n({left_out} characters are left out)", "deep": True}
    assert second == {"what": LONG, "deep": True}
    condensed, whole = list_call_parts(shop)
    assert (condensed.treatment, condensed.rule) == ("condensed", "condense_results sample")
    assert condensed.condensed_to == ArgumentLimits(characters=60, items=3)
    assert condensed.saved > 2_800
    assert (whole.treatment, whole.rule, whole.condensed_to) == ("kept", None, None)
    (step,) = shop.list_events(ContextAssembled)[-1].manifest.steps
    assert (step.step, step.on) == ("condense_results", "tool_results")


async def test_ids_and_names_of_condensed_calls_are_those_of_their_results() -> None:
    shop = await open_narrow_loop(5_000, "digest")
    await shop.run_turn(write_look(LONG), write_look(LONG), ["Three."])
    messages: Any = shop.house.model.requests[-1].messages
    called = [call for each in messages for call in each.get("tool_calls") or ()]
    assert [call["function"]["name"] for call in called] == ["shop_look"] * 2
    assert [call["id"] for call in called] == [
        each["tool_call_id"] for each in messages if each["role"] == "tool"
    ]
    assert read_arguments(shop)[0]["what"] == f"({len(LONG)} characters are left out)"


async def test_ladder_goes_on_to_the_next_form_only_where_the_prompt_is_too_long() -> None:
    rounds = [write_look(LONG[:2_900]) for _ in range(3)]
    wide = await open_narrow_loop(4_400, "summary", "digest")
    await wide.run_turn(*rounds, ["Three."])
    summary, digest = "condense_results summary", "condense_results digest"
    assert [part.rule for part in list_call_parts(wide)] == [summary, summary, None]
    narrow = await open_narrow_loop(3_900, "summary", "digest")
    await narrow.run_turn(*rounds, ["Three."])
    assert [part.rule for part in list_call_parts(narrow)] == [digest, summary, None]


async def test_arguments_of_the_latest_round_alone_can_be_too_long() -> None:
    shop = await open_narrow_loop(2_000, "digest")
    await shop.run_turn(write_look(LONG))
    (failed,) = shop.list_events(TurnFailed)
    assert "tool_calls 3" in failed.detail


async def test_arguments_that_a_provider_signed_stay_whole() -> None:
    text, latest = LONG[:1_800], LONG[:1_200]
    (end,) = build_tool_script(*[("shop_look", json.dumps({"what": text}))] * 2)
    assert isinstance(end, FinishedAnswer)
    first, second = end.tool_calls
    signed = '{"extra_content": {"google": {"thought_signature": "sig"}}}'
    calls = (replace(first, signature=signed), second)
    shop = await open_narrow_loop(5_000, "digest")
    await shop.run_turn([replace(end, tool_calls=calls)], write_look(latest), ["Three."])
    assert [each["what"] for each in read_arguments(shop)] == [
        text,
        f"({len(text)} characters are left out)",
        latest,
    ]
    assert [part.treatment for part in list_call_parts(shop)] == ["kept", "condensed", "kept"]


@pytest.mark.parametrize("written", ["[1, 2]", "{" + '"a": ' * 900])
async def test_arguments_that_are_no_object_stay_left_out(written: str) -> None:
    shop = await open_narrow_loop(2_000, "digest")
    broken = build_tool_script(("shop_look", written))
    await shop.run_turn(broken, write_look("a nail"), ["Three."])
    part, _ = list_call_parts(shop)
    assert (part.treatment, part.rule) == ("trimmed", "no JSON object")
    assert read_arguments(shop)[0] == {}
