"""A turn of several calls over HTTP and litellm, as clients and auditors see it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.agent_programs.agent_service import (
    TWO_STEP_ANSWERS,
    AgentService,
    answer_with_plan,
    answer_with_text,
)
from tests.services.gateway.streaming.sse_client import ReceivedEvent
from turnlog.events.model.tool_events import ToolReturned

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_u16_turn_plans_runs_each_step_with_its_tools_and_replies(
    platform: AgentService,
) -> None:
    session = await platform.open_session()
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    history = await platform.fetch_json(f"/v1/sessions/{session}/history")
    assert history["turns"][0]["reply"] == "It is yours."
    assert platform.list_offered_tools() == [[], ["shop_look"], ["shop_pay"], []]
    assert platform.get_request_texts(1) == ["Find a hammer.", "Get me a hammer."]
    assert "3 in stock" in platform.get_request_texts(3)[0]
    kinds = [(each["call"], each["kind"]) for each in await platform.list_calls(session)]
    assert kinds == [("1.1", "plan"), ("1.2", "tactic"), ("1.3", "tactic"), ("1.4", "synthesise")]
    assert [each.outcome for each in await platform.load_events(session, ToolReturned)] == [
        *("answered", "answered")
    ]
    for call, body in zip(("1.1", "1.2", "1.3", "1.4"), platform.bodies, strict=True):
        prompt = await platform.fetch_prompt(session, call)
        assert prompt["messages"] == body["messages"]
        assert prompt["tools"] == body.get("tools", [])


async def test_u16_turn_stream_reports_progress_before_the_reply(
    platform: AgentService,
) -> None:
    session, watching = await platform.open_session(), asyncio.Event()
    platform.provider.queue_behaviours(
        replace(TWO_STEP_ANSWERS[0], gates={0: watching}), *TWO_STEP_ANSWERS[1:]
    )
    await platform.gateway.submit_turn(session, "Get me a hammer.")
    received: list[ReceivedEvent] = []
    async with platform.watch_turn(session) as watched:
        async for each in watched.iterate_events():
            received.append(each)
            watching.set()
    assert [each.json for each in received if each.name == "progress"] == [
        {"call": "1.1", "doing": "plan"},
        {"call": "1.2", "doing": "act"},
        {"call": "1.3", "doing": "tool", "tool": "shop_look"},
        {"call": "1.3", "doing": "act"},
        {"call": "1.4", "doing": "tool", "tool": "shop_pay"},
        {"call": "1.4", "doing": "reply"},
    ]
    assert [each.name for each in received[-3:]] == ["token", "token", "done"]
    assert len(received) == 9


async def test_u16_next_turn_includes_the_previous_exchange(platform: AgentService) -> None:
    session = await platform.open_session()
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Hello."), text="Hi."
    )
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Yes."), text="Still there?"
    )
    assert platform.get_request_texts(3)[1:] == ["Hi.", "Hello.", "Still there?"]
