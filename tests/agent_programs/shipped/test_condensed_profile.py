"""U7: the shipped agent platform condenses its history where the session's profile says so.

The conversation lists what the assistant can do twice, as agents do, and is measured by the window
that the next call would have.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_text
from tests.agent_programs.history.condensed_conversations import CAN, TALK

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_u7_profile_switches_condensing_of_history_on_and_off(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")
    for question, answer in TALK:
        await platform.complete_turn(session, answer_with_text(answer), text=question)
    full = await fetch_history_parts(platform, session)
    assert {part["treatment"] for part in full} == {"kept"}

    await switch_profile(platform, session, "llm_condensed")
    condensed = await fetch_history_parts(platform, session)
    assert 0.1 <= 1 - sum_tokens(condensed) / sum_tokens(full) <= 0.25
    await platform.complete_turn(session, answer_with_text("You are welcome."), text="Thanks!")
    prompt = await platform.fetch_prompt(session, "8.1")
    rules = {part["rule"] for part in prompt["manifest"]["parts"] if part["rule"]}
    assert "duplicates" in rules
    texts = [message["content"] for message in prompt["messages"]]
    assert any(text.endswith("I can\n(said again below)") for text in texts)
    assert sum(CAN in text for text in texts) == 1, "the later list stays"
    assert await platform.find_unreproducible_calls() == []

    await switch_profile(platform, session, "llm_only")
    again = await fetch_history_parts(platform, session)
    assert {part["treatment"] for part in again} == {"kept"}


async def test_u7_condensing_profile_combines_repeated_questions_too(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="llm_condensed")
    for price in (50, 30, 20):
        answer = f"I found {price - 5} products under ${price}."
        text = f"Show products under ${price}"
        await platform.complete_turn(session, answer_with_text(answer), text=text)
    for question, answer in TALK[:1] + TALK[4:5]:
        await platform.complete_turn(session, answer_with_text(answer), text=question)
    await platform.complete_turn(session, answer_with_text("You are welcome."), text="Thanks!")
    prompt = await platform.fetch_prompt(session, "6.1")
    texts = [message["content"] for message in prompt["messages"]]
    assert "Show products under … (3 times, in turn with: $50; $30; $20)" in texts
    assert any(text.endswith("(said again below)") for text in texts)
    assert await platform.find_unreproducible_calls() == []


async def switch_profile(platform: AgentService, session: str, profile: str) -> None:
    answer = await platform.http.post(f"/v1/sessions/{session}/profile", json={"profile": profile})
    assert answer.status_code == 200, answer.text


async def fetch_history_parts(platform: AgentService, session: str) -> list[dict[str, Any]]:
    """Return the parts of earlier turns in the prompt that a next call would have."""
    window = await platform.fetch_json(f"/v1/sessions/{session}/window")
    return [part for part in window["manifest"]["parts"] if part["layer"] == "history"]


def sum_tokens(parts: list[dict[str, Any]]) -> int:
    return sum(part["tokens"] for part in parts)
