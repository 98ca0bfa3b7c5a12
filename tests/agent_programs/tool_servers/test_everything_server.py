"""A third-party server over streamable HTTP: discovered, called and restarted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.agent_programs.agent_harness import build_agent_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_plan,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.servers.reference_mcp_server import (
    MISSING_REASON,
    ReferenceMcpServer,
    run_reference_server,
)
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.tool_events import ToolReturned, ToolsSnapshotted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.services.worker.tools.mcp_servers import McpToolServers

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(bool(MISSING_REASON), reason=MISSING_REASON),
]

HIDDEN = ("get-env", "args-prompt")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def everything() -> AsyncIterator[ReferenceMcpServer]:
    async with run_reference_server() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def served(platform: AgentService) -> AsyncIterator[AgentService]:
    servers = McpToolServers()
    platform.worker.servers = servers
    yield platform
    await servers.close()


def build_everything_agent(everything: ReferenceMcpServer) -> Blueprint:
    """Return an agent with all tools of the server except two."""
    spec: dict[str, Any] = build_agent_blueprint().model_dump(
        mode="json", by_alias=True, exclude_unset=True
    )
    spec["layers"]["prompts"] = {"prompts": "all", "component": "tools_context"}
    spec["calls"]["plan"]["messages"][0]["system"].append("prompts")
    spec["tools"]["servers"] = {"all": {"url": everything.url, "except": HIDDEN}}
    return build_agent_blueprint(**{word: spec[word] for word in ("layers", "calls", "tools")})


async def run_addition(platform: AgentService, session: str, a: int, b: int) -> str:
    """Run a turn that adds two numbers and return the result as the prompt shows it."""
    tool_request = ("all_get-sum", {"a": a, "b": b})
    await platform.complete_turn(
        session,
        answer_with_plan(("Add.", [])),
        answer_with_tool_calls(tool_request),
        answer_with_text("Done."),
        text="Add.",
    )
    returned = (await platform.load_events(session, ToolReturned))[-1]
    assert (returned.outcome, returned.treatment) == ("answered", "kept")
    return str(platform.get_request_texts(-1)[0])


async def test_u20_tools_and_prompts_of_a_server_are_discovered_filtered_and_run(
    served: AgentService, everything: ReferenceMcpServer
) -> None:
    session = await served.open_session(build_everything_agent(everything))
    assert "The sum of 2 and 3 is 5." in await run_addition(served, session, 2, 3)
    (pinned,) = await served.load_events(session, ToolsSnapshotted)
    assert {"all_echo", "all_get-sum"} <= set(pinned.tools)
    assert "all_simple-prompt" in pinned.prompts
    assert pinned.left_out == {f"all_{name}": "among `except`" for name in HIDDEN}
    assert "- all_simple-prompt: A prompt with no arguments" in served.get_request_texts(0)[0]
    assert sorted(served.list_offered_tools()[1]) == sorted(pinned.tools)


async def test_u6_listing_tools_by_name_saves_60_percent_of_their_descriptions(
    served: AgentService, everything: ReferenceMcpServer
) -> None:
    session = await served.open_session(build_everything_agent(everything))
    for _ in range(2):
        await served.complete_turn(
            session, answer_with_plan(), answer_with_text("Hello."), text="Hi."
        )
    calls = (await served.load_events(session, ContextAssembled))[::2]
    full, named = (
        sum(part.tokens for part in call.manifest.parts if part.layer == "tools") for call in calls
    )
    assert named <= 0.4 * full


async def test_tool_error_of_the_server_is_recorded_as_failed(
    served: AgentService, everything: ReferenceMcpServer
) -> None:
    session = await served.open_session(build_everything_agent(everything))
    tool_answer = answer_with_tool_calls(("all_get-sum", {"a": "two", "b": 3}))
    await served.complete_turn(
        session,
        answer_with_plan(("Add.", [])),
        tool_answer,
        answer_with_text("Sorry."),
        text="Add.",
    )
    assert [each.outcome for each in await served.load_events(session, ToolReturned)] == ["failed"]


async def test_tool_call_succeeds_after_a_restarted_server_lost_its_session(
    served: AgentService, everything: ReferenceMcpServer
) -> None:
    session = await served.open_session(build_everything_agent(everything))
    assert "is 5." in await run_addition(served, session, 2, 3)
    await everything.restart_server()
    assert "is 9." in await run_addition(served, session, 4, 5)


async def test_u20_server_prompts_are_used_like_tools_and_messages_keep_their_roles(
    served: AgentService, everything: ReferenceMcpServer
) -> None:
    session = await served.open_session(build_everything_agent(everything))
    resource = {"resourceType": "Text", "resourceId": 1}
    await served.complete_turn(
        session,
        answer_with_plan(("Read two prompts.", ["all_simple-prompt", "all_resource-prompt"])),
        answer_with_tool_calls(("all_simple-prompt", {}), ("all_resource-prompt", resource)),
        answer_with_text("Read."),
        text="Read them.",
    )
    assert [each.outcome for each in await served.load_events(session, ToolReturned)] == [
        *("answered", "answered")
    ]
    (results, _) = served.get_request_texts(-1)
    assert "all_simple-prompt {}\n  This is a simple prompt without arguments.\n" in results
    (first, second) = results.splitlines()[-2:]
    assert first.startswith("  user: This prompt includes the Text resource with id: 1.")
    assert second.startswith("  user: Resource 1: This is a plaintext resource")
