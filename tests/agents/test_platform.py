"""A turn of several calls over HTTP and litellm, as clients and auditors see it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.agents.platform import STEPS, Platform, plans, says
from tests.services.gateway.watching import Heard
from turnlog.events.model.tool_events import ToolReturned

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_u16_a_turn_plans_takes_each_step_runs_its_tools_and_says_what_came_of_it(
    platform: Platform,
) -> None:
    session = await platform.open()
    await platform.turn(session, *STEPS)
    history = await platform.get(f"/v1/sessions/{session}/history")
    assert history["turns"][0]["reply"] == "It is yours."
    assert platform.offered() == [[], ["shop_look"], ["shop_pay"], []]
    assert platform.said(1) == ["Find a hammer.", "Get me a hammer."]
    assert "3 in stock" in platform.said(3)[0]
    kinds = [(each["call"], each["kind"]) for each in await platform.calls(session)]
    assert kinds == [("1.1", "plan"), ("1.2", "tactic"), ("1.3", "tactic"), ("1.4", "synthesise")]
    assert [each.outcome for each in await platform.events(session, ToolReturned)] == [
        *("answered", "answered")
    ]
    for call, body in zip(("1.1", "1.2", "1.3", "1.4"), platform.bodies, strict=True):
        prompt = await platform.prompt(session, call)
        assert prompt["messages"] == body["messages"]
        assert prompt["tools"] == body.get("tools", [])


async def test_u16_whoever_watches_is_told_what_the_turn_is_at_and_then_the_reply(
    platform: Platform,
) -> None:
    session, watching = await platform.open(), asyncio.Event()
    platform.provider.will(replace(STEPS[0], gates={0: watching}), *STEPS[1:])
    await platform.stand.submit(session, "Get me a hammer.")
    heard: list[Heard] = []
    async with platform.watching(session) as watched:
        async for each in watched.events():
            heard.append(each)
            watching.set()
    assert [each.json for each in heard if each.name == "progress"] == [
        {"call": "1.1", "doing": "plan"},
        {"call": "1.2", "doing": "act"},
        {"call": "1.3", "doing": "tool", "tool": "shop_look"},
        {"call": "1.3", "doing": "act"},
        {"call": "1.4", "doing": "tool", "tool": "shop_pay"},
        {"call": "1.4", "doing": "reply"},
    ]
    assert [each.name for each in heard[-3:]] == ["token", "token", "done"]
    assert len(heard) == 9


async def test_u16_the_next_turn_is_told_what_the_last_one_came_to(platform: Platform) -> None:
    session = await platform.open()
    await platform.turn(session, plans(), says("Hello."), text="Hi.")
    await platform.turn(session, plans(), says("Yes."), text="Still there?")
    assert platform.said(3)[1:] == ["Hi.", "Hello.", "Still there?"]
