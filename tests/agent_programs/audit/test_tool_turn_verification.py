"""Turns of several calls are verified call by call, hidden calls and tools included."""

from __future__ import annotations

import pytest

from tests.agent_programs.agent_service import (
    TWO_STEP_ANSWERS,
    AgentService,
    answer_with_plan,
    answer_with_text,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_verification_covers_every_call_of_turns_with_tools(platform: AgentService) -> None:
    session = await platform.open_session()
    await platform.complete_turn(session, *TWO_STEP_ANSWERS)
    await platform.complete_turn(
        session, answer_with_plan(), answer_with_text("You are welcome."), text="Thank you."
    )
    assert len(await platform.list_calls(session)) == 6
    report = await platform.fetch_json(f"/v1/sessions/{session}/verify")
    assert report["findings"] == []
    verdicts = [report[each] for each in ("integrity", "completeness", "reproduction", "totals")]
    assert verdicts == ["intact", "unwitnessed", "reproduced", "equal"]
    prompts = report["prompts"]
    assert (prompts["calls"], prompts["reference"], prompts["assembly"]) == (6, 6, 6)
