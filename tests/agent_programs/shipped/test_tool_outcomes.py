"""What tools did stays in later prompts and in the history, whatever became of the reply.

The sessions are of copies of the shipped `agent` and `uderia`, with a safety rule and a tool that
needs approval. A turn of each session ran a tool and got no reply of its own.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.servers.model_behaviours import ModelRefusal
from turnlog.events.model.tool_events import ApprovalRequested, ToolCalled

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "ada@ships.example"

RULE = r"""
  safety:
    rules:
      - {name: contact-details, pattern: '[a-z]+@[a-z]+\.[a-z]+'}
"""

SHIPPED_SERVERS = "servers: {configured: all, folder: mcp/}"

SERVERS = "servers: {travel: {command: [travel], approve: [pay]}}"

BOOK = answer_with_tool_calls(("travel_pay", {"what": "a berth"}))
LOOK = answer_with_tool_calls(("travel_look", {"what": "berths"}))


async def open_guarded_session(platform: AgentService, shipped: str = "agent", **form: Any) -> str:  # noqa: ANN401
    """Open a session of a shipped blueprint with a rule and with a tool that needs approval."""
    name = f"{shipped}-outcomes"
    edits = {"policies:\n": f"policies:{RULE}"}
    if shipped == "agent":
        edits[SHIPPED_SERVERS] = SERVERS
    platform.copy_shipped_blueprint(shipped, name, edits)
    return await platform.open_shipped_session(name, attributes={}, **form)


async def start_waiting_turn(platform: AgentService, session: str, *answers: Any) -> None:  # noqa: ANN401
    """Submit a turn, and wait until it waits for an approval."""
    platform.provider.queue_behaviours(*answers)
    await platform.http.post(f"/v1/sessions/{session}/turns", json={"text": "Book a berth."})
    async with platform.watch_turn(session) as watched:
        async for event in watched.iterate_events():
            if event.name == "approval":
                return


async def approve(platform: AgentService, session: str) -> None:
    (asked,) = await platform.load_events(session, ApprovalRequested)
    path = f"/v1/sessions/{session}/turns/1/approvals/{asked.approval}"
    (await platform.http.post(path, json={"decision": "approve"})).raise_for_status()


async def wait_for_end(platform: AgentService, session: str) -> str:
    async with platform.watch_turn(session) as watched:
        return [event.name async for event in watched.iterate_events()][-1]


async def ask_next(platform: AgentService, session: str) -> list[dict[str, Any]]:
    """Submit the next turn, and return the messages of its prompt."""
    await platform.complete_turn(session, answer_with_text("It is booked."), text="Booked?")
    return list(platform.bodies[-1]["messages"])


async def fetch_turn(platform: AgentService, session: str) -> dict[str, Any]:
    return dict((await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"][0])


async def require_verified(platform: AgentService, session: str, call: str = "2.1") -> None:
    """Require that the log verifies and that `why` explains the next turn.

    The fixture checks the same with the verifier of bundles.
    """
    assert (await platform.fetch_json(f"/v1/sessions/{session}/verify"))["findings"] == []
    await platform.fetch_prompt(session, call)
    await platform.fetch_json(f"/v1/sessions/{session}/turns/2/why")


@pytest.mark.slow("two turns with tools over HTTP, and a verification outside of the product")
async def test_approved_booking_is_in_the_next_prompt_and_in_history_after_its_reply_is_withheld(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform)
    platform.shop.result_text = "berth B-17 is booked"
    reply = answer_with_text(f"Booked; write to {SECRET}.")
    await start_waiting_turn(platform, session, BOOK, reply)
    await approve(platform, session)
    assert await wait_for_end(platform, session) == "redact"
    assert platform.shop.tool_calls == [("pay", {"what": "a berth"})]
    turn = await fetch_turn(platform, session)
    (use,) = turn["tools"]
    assert (turn["redacted"], use["tool"], use["outcome"]) == (True, "travel_pay", "answered")
    assert "berth B-17 is booked" in use["text"]
    _, question, answer, _ = await ask_next(platform, session)
    (called,) = await platform.load_events(session, ToolCalled)
    assert question["content"] == "Book a berth."
    assert f"- travel_pay (key {called.call}/{called.id}): answered" in answer["content"]
    assert "berth B-17 is booked" in answer["content"]
    assert answer["content"].endswith("(This reply was withheld.)")
    stored = (await platform.http.get(f"/v1/sessions/{session}/events?limit=1000")).text
    assert "B-17" in stored
    assert SECRET not in stored
    await require_verified(platform, session)


async def test_result_that_a_rule_withheld_stays_withheld_and_its_outcome_is_in_the_next_prompt(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform)
    platform.shop.result_text = f"ask {SECRET}"
    await platform.submit_turn(session, LOOK, answer_with_text(SECRET), text="Any berths?")
    answer = (await ask_next(platform, session))[2]["content"]
    assert ": answered" in answer
    assert "withheld by the rule contact-details" in answer
    assert SECRET not in str(platform.bodies)
    (use,) = (await fetch_turn(platform, session))["tools"]
    assert "withheld by the rule" in use["text"]
    await require_verified(platform, session)


async def test_operator_withholds_reply_and_results_but_the_next_prompt_names_the_outcome(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform)
    platform.shop.result_text = "three berths"
    await platform.complete_turn(session, LOOK, answer_with_text("Three."), text="Any berths?")
    path = f"/v1/sessions/{session}/redactions"
    (await platform.http.post(path, json={"turn": 1, "reason": "private"})).raise_for_status()
    answer = (await ask_next(platform, session))[2]["content"]
    assert "travel_look" in answer
    assert "three berths" not in answer
    (use,) = (await fetch_turn(platform, session))["tools"]
    assert (use["tool"], use["outcome"], use["text"]) == ("travel_look", "answered", None)
    await require_verified(platform, session)


async def test_turn_that_failed_after_a_tool_ran_is_in_the_next_prompt_with_the_outcome(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform)
    platform.shop.result_text = "three berths"
    settled = await platform.submit_turn(
        session, LOOK, ModelRefusal(status=400), text="Any berths?"
    )
    assert settled["status"] == "failed"
    _, question, answer, _ = await ask_next(platform, session)
    assert question["content"] == "Any berths?"
    assert answer["content"].startswith("This turn failed before it was answered.")
    assert "three berths" in answer["content"]
    (use,) = (await fetch_turn(platform, session))["tools"]
    assert (use["outcome"], "three berths" in use["text"]) == ("answered", True)
    await require_verified(platform, session)


async def test_turn_cancelled_while_a_tool_runs_is_in_the_next_prompt_with_the_outcome_lost(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform)
    running, cancelled = asyncio.Event(), asyncio.Event()

    async def wait_during_call() -> None:
        running.set()
        await cancelled.wait()

    platform.shop.during_call = wait_during_call
    platform.provider.queue_behaviours(LOOK)
    await platform.http.post(f"/v1/sessions/{session}/turns", json={"text": "Any berths?"})
    await running.wait()
    (await platform.http.post(f"/v1/sessions/{session}/cancel", json={})).raise_for_status()
    cancelled.set()
    answer = (await ask_next(platform, session))[2]["content"]
    assert answer.startswith("This turn was cancelled before it was answered.")
    assert answer.endswith(": lost")
    await require_verified(platform, session)


async def test_turn_that_failed_before_any_tool_ran_has_a_line_in_place_of_its_reply(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform)
    await platform.submit_turn(session, ModelRefusal(status=400), text="Any berths?")
    messages = await ask_next(platform, session)
    assert [each["role"] for each in messages] == ["system", "user", "assistant", "user"]
    assert messages[1]["content"] == "Any berths?"
    assert messages[2]["content"] == "(This turn failed before it was answered.)"


async def test_plan_of_uderia_after_a_withheld_reply_has_the_outcome_of_its_tool(
    platform: AgentService,
) -> None:
    session = await open_guarded_session(platform, "uderia", profile="tool_enabled")
    platform.shop.result_text = "the boat is hired"
    answers = (
        answer_with_plan(("Hire a boat.", ["harbour_look"])),
        answer_with_tool_calls(("harbour_look", {"what": "boats"})),
        answer_with_text(SECRET),
    )
    settled = await platform.submit_turn(session, *answers, text="Hire me a boat.")
    assert settled["redacted"]
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("It is hired."), text="Is it hired?"
    )
    plan = json.dumps(platform.bodies[3]["messages"])
    assert "harbour_look (key 1.2/" in plan
    assert "the boat is hired" in plan
    await require_verified(platform, session)
