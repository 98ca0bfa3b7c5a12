"""The `loop` program over HTTP, with litellm and a model server; every call is proven."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import TypeAdapter
from rich.console import Console

from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.servers.model_behaviours import ModelAnswer
from turnlog.projections.audit.diff.call_diff import CallDiff
from turnlog.projections.blueprint.validation.blueprint_checks import check_blueprint
from turnlog.services.cli.views.diff_view import render_diff

pytestmark = pytest.mark.asyncio(loop_scope="module")

LOOK = answer_with_tool_calls(("shop_look", {"what": "hammer"}), ("shop_look", {"what": "nail"}))


async def test_prompt_of_a_tool_round_is_shown_as_it_was_sent(platform: AgentService) -> None:
    session = await platform.open_session(build_loop_blueprint())
    await platform.complete_turn(session, LOOK, answer_with_text("Three of each."))
    prompt = await platform.fetch_prompt(session, "1.2")
    sent = platform.bodies[1]["messages"]
    assert prompt["messages"] == [
        {"content": None, **each} if "tool_calls" in each else each for each in sent
    ]
    assert [each["role"] for each in sent] == ["system", "user", "assistant", "tool", "tool"]


async def test_chat_profile_with_a_call_that_offers_all_tools_runs_as_a_loop(
    platform: AgentService,
) -> None:
    profiles = {
        "agent": {"default": True, "call": "converse"},
        "plain": {"call": "converse", "tools": "none"},
    }
    kind = build_loop_blueprint(profiles=profiles)
    assert [*check_blueprint(kind)] == []
    assert {name: each.program for name, each in kind.profiles.items()} == {
        "agent": "loop",
        "plain": "chat",
    }
    session = await platform.open_session(kind)
    await platform.complete_turn(session, LOOK, answer_with_text("Three of each."))
    assert len(platform.shop.tool_calls) == 2
    await platform.http.post(f"/v1/sessions/{session}/profile", json={"profile": "plain"})
    await platform.complete_turn(session, answer_with_text("I have no tools."), text="And now?")
    assert [len(tools) for tools in platform.list_offered_tools()] == [2, 2, 0]


async def test_loop_stream_sends_text_of_a_round_then_resets_and_sends_the_reply(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_loop_blueprint())
    seen = asyncio.Event()
    platform.shop.during_call = seen.wait
    called = (("shop_look", json.dumps({"what": "hammer"})),)
    begun = ModelAnswer(tokens=("Let me ", "look."), finish="tool_calls", tool_calls=called)
    platform.provider.queue_behaviours(begun, answer_with_text("There are ", "three."))
    await platform.http.post(f"/v1/sessions/{session}/turns", json={"text": "Hammers?"})
    story = list[str]()
    async with platform.watch_turn(session) as watched:
        async for event in watched.iterate_events():
            story.append(event.json["text"] if event.name == "token" else event.name)
            if "".join(story).endswith("Let me look."):
                seen.set()
    assert "".join(each for each in story if each != "progress") == (
        "Let me look." + "attempt-reset" + "There are three." + "done"
    )


async def test_long_results_of_a_loop_are_condensed_if_they_do_not_fit(
    platform: AgentService,
) -> None:
    ladder = [
        {"condense_results": {"layer": "tool_results", "to": "summary"}},
        {"condense_results": {"layer": "tool_results", "to": "sample"}},
        {"condense_results": {"layer": "tool_results", "to": "digest"}},
    ]
    budget = {"small": {"tokens": 700, "counter": {"chars_per_token": 4}, "ladder": ladder}}
    calls = {"converse": {**build_calls()["converse"], "budget": "small"}}
    kind = build_loop_blueprint(calls=calls, budget=budget)
    assert [*check_blueprint(kind)] == []
    session = await platform.open_session(kind)
    platform.shop.results = ["short", "word " * 1_500]
    await platform.complete_turn(session, LOOK, answer_with_text("A lot of words."))
    prompt = await platform.fetch_prompt(session, "1.2")
    results = [each["content"] for each in prompt["messages"] if each["role"] == "tool"]
    assert results[0] == "short"
    assert len(results[1]) < 500
    assert prompt["manifest"]["tokens"] <= 700
    assert [step["on"] for step in prompt["manifest"]["steps"]] == ["tool_results"]


def build_calls() -> dict[str, Any]:
    messages = [{"system": ["rules"]}, {"history": "recent"}, {"user": ["input"]}]
    return {"converse": {"messages": messages, "tools": ["all"]}}


async def test_only_the_final_reply_of_a_loop_must_match_the_schema(platform: AgentService) -> None:
    schema = {"type": "object", "properties": {"stock": {"type": "integer"}}, "required": ["stock"]}
    calls = {"converse": {**build_calls()["converse"], "output": {"schema": schema}}}
    session = await platform.open_session(build_loop_blueprint(calls=calls))
    turn = await platform.submit_turn(session, LOOK, answer_with_text('{"stock": 3}'))
    assert turn["reply"] == '{"stock": 3}'


async def test_later_turns_can_include_tool_results_of_a_loop(platform: AgentService) -> None:
    calls = build_calls()
    kind = build_loop_blueprint(calls=calls, history={"recent": {"of": "work"}})
    session = await platform.open_session(kind)
    await platform.complete_turn(session, LOOK, answer_with_text("Three of each."))
    await platform.complete_turn(session, answer_with_text("As before."), text="And now?")
    (earlier,) = [each for each in platform.bodies[2]["messages"] if each["role"] == "assistant"]
    assert earlier["content"].startswith('Tools gave:\nshop_look {"what": "hammer"}\n  3 in stock')
    assert earlier["content"].endswith("Three of each.")


async def test_cancelled_loop_records_an_outcome_for_each_tool(platform: AgentService) -> None:
    session = await platform.open_session(build_loop_blueprint())

    async def cancel() -> None:
        await platform.http.post(f"/v1/sessions/{session}/cancel")

    platform.shop.during_call = cancel
    turn = await platform.submit_turn(session, LOOK)
    assert turn["status"] == "cancelled"
    names = await platform.list_event_names(session)
    assert names.count("tool-called") == names.count("tool-returned") == 2


async def test_diff_of_two_rounds_shows_tool_calls_and_results(
    platform: AgentService,
) -> None:
    session = await platform.open_session(build_loop_blueprint())
    await platform.complete_turn(session, LOOK, answer_with_text("Three of each."))
    await platform.list_calls(session)  # Until the read models have them
    found = await platform.fetch_json(f"/v1/sessions/{session}/calls/1.1/diff/1.2")
    reasons = {reason["what"] for each in found["changes"] for reason in each["because"]}
    assert reasons == {"called", "returned"}
    shown = Console(record=True, width=100, quiet=True)
    shown.print(render_diff(TypeAdapter(CallDiff).validate_python(found)))


@pytest.mark.parametrize(
    ("changes", "where", "what"),
    [
        (
            {"calls": {"converse": {**build_calls()["converse"], "tools": []}}},
            ("calls", "converse", "tools"),
            "profile `agent` calls tools by it, and it offers none",
        ),
        (
            {
                "calls": {"converse": {**build_calls()["converse"], "budget": "small"}},
                "budget": {"small": {"tokens": 700}},
            },
            ("budget", "small", "ladder"),
            "no step shortens the tool results of profile `agent` when they have no room",
        ),
    ],
)
async def test_blueprint_check_rejects_a_loop_that_cannot_run(
    changes: dict[str, Any], where: tuple[str, ...], what: str
) -> None:
    (found,) = check_blueprint(build_loop_blueprint(**changes))
    assert (found.path, found.what) == (where, what)
