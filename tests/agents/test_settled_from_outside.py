"""U16: a turn is cancelled, overdue or interrupted while its tools run, over HTTP."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.agents.platform import Platform, plans, says, takes
from tests.agents.workshop import agent
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.tool_events import ToolCalled, ToolReturned, ToolStarted
from turnlog.events.model.turn_events import TurnCancelled, TurnFailed
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint

pytestmark = pytest.mark.asyncio(loop_scope="module")
BOTH = takes(("shop_pay", {"what": "hammer"}), ("shop_look", {"what": "nail"}))
NOW = {"base_seconds": 0}


async def begun(platform: Platform, kind: Blueprint) -> tuple[str, asyncio.Event]:
    """Run a turn up to a tool call that blocks until the returned event is set."""
    running, told = asyncio.Event(), asyncio.Event()

    async def meanwhile() -> None:
        running.set()
        await told.wait()

    platform.shop.meanwhile = meanwhile
    session = await platform.open(kind)
    platform.provider.will(plans(("Buy it.", [])), BOTH)
    await platform.stand.submit(session, "Get me a hammer.")
    await running.wait()
    return session, told


async def outcomes(platform: Platform, session: str) -> list[str]:
    """Return the tool outcomes and require exactly one for each call."""
    called = Counter(each.id for each in await platform.events(session, ToolCalled))
    returned = await platform.events(session, ToolReturned)
    assert Counter(each.id for each in returned) == called
    return [each.outcome for each in returned]


async def test_u16_a_turn_that_is_cancelled_lets_its_tools_come_back_all_the_same(
    platform: Platform,
) -> None:
    session, told = await begun(platform, agent())
    answer = await platform.http.post(f"/v1/sessions/{session}/cancel", json={})
    assert answer.status_code == 200, answer.text
    assert await outcomes(platform, session) == ["lost", "refused"]
    told.set()
    await platform.turn(session, plans(), says("Hello."), text="Never mind.")
    assert await outcomes(platform, session) == ["lost", "refused"]
    assert [tool for tool, _ in platform.shop.asked] == ["pay"]
    assert platform.said(3)[1:] == ["Never mind."]


async def test_u16_a_turn_whose_time_is_up_fails_and_its_tools_come_back_all_the_same(
    platform: Platform,
) -> None:
    profiles = {"agent": agent().profiles["agent"].model_dump() | {"deadline_seconds": 0.4}}
    platform.shop.meanwhile = asyncio.Event().wait
    session = await platform.open(agent(profiles=profiles))
    said = await platform.ask(session, plans(("Buy it.", [])), BOTH)
    assert said["status"] == "failed"
    (failed,) = await platform.events(session, TurnFailed)
    assert failed.code == "deadline"
    started = await platform.events(session, ToolStarted)
    assert set(await outcomes(platform, session)) <= ({"lost", "refused"} if started else set())


async def test_u16_a_second_turn_waits_until_the_tools_of_the_first_have_come_back(
    platform: Platform,
) -> None:
    session, told = await begun(platform, agent(policies={"retries": NOW}))
    await platform.stand.submit(session, "And a nail.")
    assert (await platform.names(session))[-1] == "turn-queued"
    platform.provider.will(says("Yours."), plans(), says("And that."))
    told.set()
    async with platform.watching(session, 2) as watched:
        heard = await watched.whole()
    assert [each.name for each in heard if each.name != "progress"] == ["token", "done"]
    assert await outcomes(platform, session) == ["answered", "answered"]
    attempts = await platform.events(session, AttemptStarted)
    assert [each.call for each in attempts] == ["1.1", "1.2", "1.3", "2.1", "2.2"]


async def test_u16_a_second_turn_may_interrupt_the_tools_of_the_first(platform: Platform) -> None:
    policies = {"second_submit": "interrupt", "retries": NOW}
    session, _ = await begun(platform, agent(policies=policies))
    platform.provider.will(plans(), says("A nail."))
    await platform.stand.submit(session, "No, a nail.")
    async with platform.watching(session, 2) as watched:
        heard = await watched.whole()
    assert heard[-1].name == "done"
    (cancelled,) = await platform.events(session, TurnCancelled)
    assert (cancelled.turn, cancelled.reason) == (1, "interrupted")
    assert await outcomes(platform, session) == ["lost", "refused"]


async def test_u16_a_second_turn_may_be_turned_away(platform: Platform) -> None:
    session, told = await begun(platform, agent(policies={"second_submit": "reject"}))
    path = f"/v1/sessions/{session}/turns"
    answer = await platform.http.post(path, json={"text": "And a nail."})
    assert (answer.status_code, answer.json()["code"]) == (409, "turn-open")
    platform.provider.will(says("Yours."))
    told.set()
    async with platform.watching(session) as watched:
        assert (await watched.whole())[-1].name == "done"
