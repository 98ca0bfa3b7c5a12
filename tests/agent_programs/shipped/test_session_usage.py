"""What a session of the shipped agent platform took and cost, in the list of sessions."""

from __future__ import annotations

import pytest

from tests.agent_programs.agent_service import AgentService, answer_with_text

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_u24_session_list_shows_tokens_and_cost_of_each_session(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={})
    for question in ("What is a log?", "And a projection?"):
        platform.provider.queue_behaviours(answer_with_text("A thing of the past."))
        await platform.complete_turn(session, text=question)
    calls = await platform.list_calls(session)
    page = await platform.fetch_json("/v1/sessions", q=session)
    (row,) = page["sessions"]
    sums = {
        figure: sum(call[figure] for call in calls)
        for figure in ("input_tokens", "output_tokens", "micro_dollars")
    }
    assert row["usage"] == {
        **sums,
        "total_tokens": sums["input_tokens"] + sums["output_tokens"],
        "unknown_attempts": 0,
        "cost": {"micro_dollars": sums["micro_dollars"], "guessed": True, "unpriced_calls": 0},
    }
    assert sums["input_tokens"] > 0
