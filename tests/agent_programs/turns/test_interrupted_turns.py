"""U16: a turn is cancelled, overdue or interrupted while its tools run, over HTTP."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.agent_programs.agent_harness import build_agent_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.tool_events import ToolCalled, ToolReturned, ToolStarted
from turnlog.events.model.turn_events import TurnCancelled, TurnFailed
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOTH = answer_with_tool_calls(("shop_pay", {"what": "hammer"}), ("shop_look", {"what": "nail"}))

NOW = {"base_seconds": 0}


async def start_blocked_turn(platform: AgentService, kind: Blueprint) -> tuple[str, asyncio.Event]:
    """Run a turn up to a tool call that blocks until the returned event is set."""
    running, release = asyncio.Event(), asyncio.Event()

    async def meanwhile() -> None:
        running.set()
        await release.wait()

    platform.shop.during_call = meanwhile
    session = await platform.open_session(kind)
    platform.provider.queue_behaviours(answer_with_plan(("Buy it.", [])), BOTH)
    await platform.gateway.submit_turn(session, "Get me a hammer.")
    await running.wait()
    return session, release


async def list_tool_outcomes(platform: AgentService, session: str) -> list[str]:
    """Return the tool outcomes and require exactly one for each call."""
    called = Counter(each.id for each in await platform.load_events(session, ToolCalled))
    returned = await platform.load_events(session, ToolReturned)
    assert Counter(each.id for each in returned) == called
    return [each.outcome for each in returned]


async def test_u16_cancelled_turn_records_an_outcome_for_each_tool(
    platform: AgentService,
) -> None:
    session, release = await start_blocked_turn(platform, build_agent_blueprint())
    answer = await platform.http.post(f"/v1/sessions/{session}/cancel", json={})
    assert answer.status_code == 200, answer.text
    assert await list_tool_outcomes(platform, session) == ["lost", "refused"]
    release.set()
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("Hello."), text="Never mind."
    )
    assert await list_tool_outcomes(platform, session) == ["lost", "refused"]
    assert [tool for tool, _ in platform.shop.tool_calls] == ["pay"]
    _, question, outcomes, _ = platform.get_request_texts(3)
    assert question == "Get me a hammer."
    assert outcomes.endswith("Tools that ran:\n- shop_pay (key 1.2/call_0): lost")


async def test_u16_turn_past_its_deadline_fails_and_records_tool_outcomes(
    platform: AgentService,
) -> None:
    profiles = {
        "agent": build_agent_blueprint().profiles["agent"].model_dump() | {"deadline_seconds": 0.4}
    }
    platform.shop.during_call = asyncio.Event().wait
    session = await platform.open_session(build_agent_blueprint(profiles=profiles))
    turn = await platform.submit_turn(session, answer_with_plan(("Buy it.", [])), BOTH)
    assert turn["status"] == "failed"
    (failed,) = await platform.load_events(session, TurnFailed)
    assert failed.code == "deadline"
    started = await platform.load_events(session, ToolStarted)
    assert set(await list_tool_outcomes(platform, session)) <= (
        {"lost", "refused"} if started else set()
    )


async def test_u16_second_turn_waits_until_tools_of_the_first_have_returned(
    platform: AgentService,
) -> None:
    session, release = await start_blocked_turn(
        platform, build_agent_blueprint(policies={"retries": NOW})
    )
    await platform.gateway.submit_turn(session, "And a nail.")
    assert (await platform.list_event_names(session))[-1] == "turn-queued"
    platform.provider.queue_behaviours(
        answer_with_text("Yours."), answer_with_plan(), answer_with_text("And that.")
    )
    release.set()
    async with platform.watch_turn(session, 2) as watched:
        received = await watched.read_all()
    assert [each.name for each in received if each.name != "progress"] == ["token", "done"]
    assert await list_tool_outcomes(platform, session) == ["answered", "answered"]
    attempts = await platform.load_events(session, AttemptStarted)
    assert [each.call for each in attempts] == ["1.1", "1.2", "1.3", "2.1", "2.2"]


async def test_u16_second_turn_can_interrupt_tools_of_the_first(
    platform: AgentService,
) -> None:
    policies = {"second_submit": "interrupt", "retries": NOW}
    session, _ = await start_blocked_turn(platform, build_agent_blueprint(policies=policies))
    platform.provider.queue_behaviours(answer_with_plan(), answer_with_text("A nail."))
    await platform.gateway.submit_turn(session, "No, a nail.")
    async with platform.watch_turn(session, 2) as watched:
        received = await watched.read_all()
    assert received[-1].name == "done"
    (cancelled,) = await platform.load_events(session, TurnCancelled)
    assert (cancelled.turn, cancelled.reason) == (1, "interrupted")
    assert await list_tool_outcomes(platform, session) == ["lost", "refused"]


async def test_u16_second_turn_can_be_rejected_by_policy(platform: AgentService) -> None:
    session, release = await start_blocked_turn(
        platform, build_agent_blueprint(policies={"second_submit": "reject"})
    )
    path = f"/v1/sessions/{session}/turns"
    answer = await platform.http.post(path, json={"text": "And a nail."})
    assert (answer.status_code, answer.json()["code"]) == (409, "turn-open")
    platform.provider.queue_behaviours(answer_with_text("Yours."))
    release.set()
    async with platform.watch_turn(session) as watched:
        assert (await watched.read_all())[-1].name == "done"
