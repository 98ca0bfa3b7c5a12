"""Questions, instructions and system prompts that cannot fit are refused before anything runs."""

from __future__ import annotations

import pytest

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


def count_out(tokens: int) -> str:
    """Return a text of exactly this many tokens."""
    return "The" + " tide" * (tokens - 1)


async def test_question_of_1301_tokens_is_refused_with_count_and_limit(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="tool_enabled")
    before = await platform.list_event_names(session)
    path = f"/v1/sessions/{session}/turns"
    answer = await platform.http.post(path, json={"text": count_out(1_301)})
    assert (answer.status_code, answer.json()["code"]) == (422, "over-budget")
    assert answer.json()["detail"] == "1301 tokens do not fit component query, which has 1000"
    assert "301 tokens" in answer.text
    assert await platform.list_event_names(session) == before
    assert platform.bodies == []


async def test_question_of_1000_tokens_fits_every_call_of_the_turn(platform: AgentService) -> None:
    session = await platform.open_shipped_session(
        "uderia", attributes={"instructions": count_out(499)}, profile="tool_enabled"
    )
    platform.shop.results = ["It blew. " * 1_100] * 4
    calls = [("harbour_look", {"what": f"boat {n}"}) for n in range(4)]
    await platform.complete_turn(
        session,
        answer_with_plan(("Look.", ["harbour_look"])),
        answer_with_tool_calls(*calls),
        answer_with_text("Late."),
        text=count_out(1_000),
    )


async def test_instructions_of_7500_tokens_are_refused_at_session_opening(
    platform: AgentService,
) -> None:
    form = {"blueprint": "uderia", "attributes": {"instructions": count_out(7_500)}}
    answer = await platform.http.post("/v1/sessions", json=form)
    assert (answer.status_code, answer.json()["code"]) == (422, "over-budget")
    assert answer.json()["detail"] == "7501 tokens do not fit component instructions, which has 500"
    assert answer.json()["field"] == "attributes.instructions"


async def test_system_prompt_too_long_for_a_later_call_fails_turn_before_first_call(
    platform: AgentService,
) -> None:
    folder = platform.copy_shipped_blueprint("uderia", "uderia-wordy")
    (folder / "error_recovery.md").write_text(count_out(995))
    session = await platform.open_shipped_session(
        "uderia-wordy", attributes={}, profile="tool_enabled"
    )
    settled = await platform.submit_turn(session, text="How late were they?")
    assert (settled["status"], settled["reason"]) == ("failed", "over-budget")
    assert platform.bodies == []
    names = await platform.list_event_names(session)
    assert not {"context-assembled", "tool-called", "summary-begun"} & set(names)
    history = await platform.fetch_json(f"/v1/sessions/{session}/events")
    assert "of component task_prompt do not fit 700" in str(history)
