"""The shipped `agent` with its sample server, over HTTP: rounds of tools until it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from turnlog.events.model.tool_events import ToolReturned
from turnlog.services.blueprints.blueprint_folders import SHIPPED_BLUEPRINTS
from turnlog.services.worker.tools.mcp_servers import McpToolServers

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def harbour(platform: AgentService) -> AsyncIterator[AgentService]:
    """The service with the sample server of the blueprint, a program of its own."""
    platform.worker.servers = servers = McpToolServers()
    yield platform
    await servers.close()


async def test_model_calls_tools_in_rounds_until_it_answers(harbour: AgentService) -> None:
    session = await harbour.open_shipped_session("agent", attributes={"instructions": "Be brief."})
    await harbour.complete_turn(
        session,
        answer_with_tool_calls(("harbour_tides", {}), ("harbour_weather", {})),
        answer_with_tool_calls(("harbour_departures", {})),
        answer_with_text("The 10:00 sails."),
        text="Can I sail at ten?",
    )
    returned = await harbour.load_events(session, ToolReturned)
    # Both tools of the first round are idempotent: they run at once, and either may end first.
    assert {each.tool for each in returned[:2]} == {"harbour_tides", "harbour_weather"}
    assert [each.tool for each in returned[2:]] == ["harbour_departures"]
    assert {each.outcome for each in returned} == {"answered"}
    calls = await harbour.list_calls(session)
    assert [each["call"] for each in calls] == ["1.1", "1.2", "1.3"]
    rules = (SHIPPED_BLUEPRINTS / "agent/rules.md").read_text().removesuffix("\n")
    first = await harbour.fetch_prompt(session, "1.1")
    assert first["messages"] == [
        {"role": "system", "content": f"{rules}\n\nBe brief."},
        {"role": "user", "content": "Can I sail at ten?"},
    ]
    last = await harbour.fetch_prompt(session, "1.3")
    roles = [each["role"] for each in last["messages"]]
    assert roles == ["system", "user", *("assistant", "tool", "tool"), *("assistant", "tool")]
    assert all("harbour_departures" in offered for offered in harbour.list_offered_tools())
