"""A turn that waits for a person or for its children does not lock its user out of other chats."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_text
from tests.agent_programs.approvals.test_approval_service import open_team
from tests.agent_programs.shipped.test_quota_rows import open_chat, set_quota, submit_for
from tests.agent_programs.shipped.test_tool_outcomes import BOOK, LOOK, open_guarded_session
from turnlog.events.model.child_events import ChildRequested
from turnlog.events.model.tool_events import ApprovalRequested, ToolReturned
from turnlog.events.model.turn_events import TurnFailed

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMIT = 20_000
"""Less than a turn of the shipped `agent` reserves, which is its budget in every round."""


async def read_input_use(platform: AgentService, user: str) -> dict[str, Any]:
    uses = (await platform.fetch_json(f"/v1/quotas/{user}"))["uses"]
    return dict(next(each for each in uses if each["name"] == "input_tokens"))


async def submit_booking(platform: AgentService, session: str, user: str) -> dict[str, Any]:
    """Submit a turn that waits for the approval of a booking."""
    platform.provider.queue_behaviours(BOOK)
    answer = await submit_for(platform, session, user)
    assert (answer.status_code, answer.json()["status"]) == (202, "waiting-for-approval")
    return dict(answer.json())


@pytest.mark.slow("turns of two sessions over HTTP")
async def test_turn_that_waits_for_approval_reserves_only_what_it_used_and_all_once_it_goes_on(
    platform: AgentService,
) -> None:
    await set_quota(platform, "ivy", input_tokens=LIMIT)
    session = await open_guarded_session(platform)
    (asked,) = (await submit_booking(platform, session, "ivy"))["approvals"]
    waiting = await read_input_use(platform, "ivy")
    assert 0 < waiting["reserved"] < 1_000
    platform.provider.queue_behaviours(answer_with_text("Hello."))
    other = await submit_for(platform, await open_chat(platform), "ivy")
    assert other.status_code == 200, other.text
    running, ended = asyncio.Event(), asyncio.Event()

    async def wait_during_call() -> None:
        running.set()
        await ended.wait()

    platform.shop.during_call = wait_during_call
    platform.provider.queue_behaviours(answer_with_text("It is booked."))
    await platform.http.post(asked["decide"], json={"decision": "approve"})
    await running.wait()
    assert (await read_input_use(platform, "ivy"))["reserved"] > LIMIT
    ended.set()
    async with platform.watch_turn(session) as watched:
        assert [event.name async for event in watched.iterate_events()][-1] == "done"
    used = await read_input_use(platform, "ivy")
    assert (used["reserved"], used["used"] > waiting["reserved"]) == (0, True)


async def test_turn_that_runs_makes_others_busy_which_is_another_code_than_used_up(
    platform: AgentService,
) -> None:
    await set_quota(platform, "jim", input_tokens=LIMIT)
    session = await open_guarded_session(platform)
    running, ended = asyncio.Event(), asyncio.Event()

    async def wait_during_call() -> None:
        running.set()
        await ended.wait()

    platform.shop.during_call = wait_during_call
    platform.provider.queue_behaviours(LOOK, answer_with_text("Three."))
    first = asyncio.create_task(submit_for(platform, session, "jim"))
    await running.wait()
    chat = await open_chat(platform)
    busy = await submit_for(platform, chat, "jim")
    problem = busy.json()
    assert (busy.status_code, problem["code"]) == (429, "quota-busy")
    assert busy.headers["Retry-After"] == "5"
    assert "0 used" in problem["detail"]
    assert "resets" not in problem["detail"]
    ended.set()
    await first
    await set_quota(platform, "jim", input_tokens=1)
    used_up = await submit_for(platform, chat, "jim")
    assert (used_up.status_code, used_up.json()["code"]) == (429, "quota-exceeded")


async def test_approved_turn_whose_limit_was_used_up_meanwhile_fails_and_runs_no_tool(
    platform: AgentService,
) -> None:
    await set_quota(platform, "kim", input_tokens=LIMIT)
    session = await open_guarded_session(platform)
    (asked,) = (await submit_booking(platform, session, "kim"))["approvals"]
    platform.provider.queue_behaviours(answer_with_text("Hello."))
    await submit_for(platform, await open_chat(platform), "kim")
    await set_quota(platform, "kim", input_tokens=1)
    decided = await platform.http.post(asked["decide"], json={"decision": "approve"})
    assert decided.status_code == 200
    (failed,) = await platform.load_events(session, TurnFailed)
    assert (failed.code, failed.outcomes, failed.retryable) == ("quota-exceeded", "", False)
    (returned,) = await platform.load_events(session, ToolReturned)
    assert returned.outcome == "refused"
    assert platform.shop.tool_calls == []
    quota = await platform.fetch_json("/v1/quotas/kim")
    assert quota["unsettled_turns"] == 0
    assert (await platform.fetch_json(f"/v1/sessions/{session}/verify"))["findings"] == []


async def test_coordinator_reserves_nothing_more_while_its_child_waits_for_approval(
    platform: AgentService,
) -> None:
    await set_quota(platform, "lea", input_tokens=LIMIT)
    session = await open_team(platform)
    answer = await submit_for(platform, session, "lea")
    (asked,) = answer.json()["approvals"]
    assert (await read_input_use(platform, "lea"))["reserved"] < 1_000
    (child,) = await platform.load_events(session, ChildRequested)
    assert await platform.load_events(child.session, ApprovalRequested)
    await platform.http.post(asked["decide"], json={"decision": "approve"})
    async with platform.watch_turn(session) as watched:
        assert [event.name async for event in watched.iterate_events()][-1] == "done"
    quota = await platform.fetch_json("/v1/quotas/lea")
    assert (quota["unsettled_turns"], quota["input_tokens"] > 0) == (0, True)
