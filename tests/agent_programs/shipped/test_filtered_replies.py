"""U26: a reply that a filter of the provider cut, on the shipped agent platform."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from tests.agent_programs.agent_service import AgentService, answer_with_text
from tests.support.servers.model_behaviours import ModelAnswer

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_u26_a_filtered_reply_is_recorded_and_logged_and_leaves_the_next_window(
    platform: AgentService,
) -> None:
    session = await platform.open_shipped_session("uderia", attributes={}, profile="llm_only")
    filtered = ModelAnswer(("Half of",), finish="content_filter")
    with capture_logs() as lines:
        await platform.complete_turn(session, filtered, text="Quote it.")
    logged = [line for line in lines if line["event"] == "answer-filtered"]
    assert [(line["log_level"], line["finish"]) for line in logged] == [
        ("warning", "content_filter")
    ]
    (turn,) = (await platform.fetch_json(f"/v1/sessions/{session}/history"))["turns"]
    assert (turn["status"], turn["finish"], turn["reply"]) == (
        "completed",
        "content_filter",
        "Half of",
    )
    assert turn["excluded"]
    await platform.complete_turn(session, answer_with_text("Good."), text="Go on.")
    assert platform.get_request_texts(1)[1:] == ["Go on."]
    restored = await platform.http.delete(f"/v1/sessions/{session}/turns/1/exclusion")
    assert restored.is_success
    await platform.complete_turn(session, answer_with_text("Fine."), text="And now?")
    assert platform.get_request_texts(2)[1:4] == ["Quote it.", "Half of", "Go on."]
