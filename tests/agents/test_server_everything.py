"""A third-party server over streamable HTTP: discovered, called and restarted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.agents.platform import Platform, plans, says, takes
from tests.agents.workshop import agent
from tests.parts.server_everything import ABSENT, Everything, server_everything
from turnlog.events.model.call_events import ContextAssembled
from turnlog.events.model.tool_events import ToolReturned, ToolsSnapshotted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.services.worker.tools.mcp_servers import McpToolServers

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(bool(ABSENT), reason=ABSENT),
]
HIDDEN = ("get-env", "args-prompt")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def everything() -> AsyncIterator[Everything]:
    async with server_everything() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def served(platform: Platform) -> AsyncIterator[Platform]:
    servers = McpToolServers()
    platform.worker.servers = servers
    yield platform
    await servers.close()


def kind(everything: Everything) -> Blueprint:
    """Return an agent with all tools of the server except two."""
    spec: dict[str, Any] = agent().model_dump(mode="json", by_alias=True, exclude_unset=True)
    spec["layers"]["prompts"] = {"prompts": "all", "component": "tools_context"}
    spec["calls"]["plan"]["messages"][0]["system"].append("prompts")
    spec["tools"]["servers"] = {"all": {"url": everything.url, "except": HIDDEN}}
    return agent(**{word: spec[word] for word in ("layers", "calls", "tools")})


async def add(platform: Platform, session: str, a: int, b: int) -> str:
    """Run a turn that adds two numbers and return the result as the prompt shows it."""
    wanted = ("all_get-sum", {"a": a, "b": b})
    await platform.turn(session, plans(("Add.", [])), takes(wanted), says("Done."), text="Add.")
    returned = (await platform.events(session, ToolReturned))[-1]
    assert (returned.outcome, returned.treatment) == ("answered", "kept")
    return str(platform.said(-1)[0])


async def test_u20_tools_and_prompts_of_a_server_are_discovered_filtered_and_run(
    served: Platform, everything: Everything
) -> None:
    session = await served.open(kind(everything))
    assert "The sum of 2 and 3 is 5." in await add(served, session, 2, 3)
    (pinned,) = await served.events(session, ToolsSnapshotted)
    assert {"all_echo", "all_get-sum"} <= set(pinned.tools)
    assert "all_simple-prompt" in pinned.prompts
    assert pinned.left_out == {f"all_{name}": "among `except`" for name in HIDDEN}
    assert "- all_simple-prompt: A prompt with no arguments" in served.said(0)[0]
    assert sorted(served.offered()[1]) == sorted(pinned.tools)


async def test_u6_naming_its_tools_saves_three_fifths_of_telling_of_them(
    served: Platform, everything: Everything
) -> None:
    session = await served.open(kind(everything))
    for _ in range(2):
        await served.turn(session, plans(), says("Hello."), text="Hi.")
    calls = (await served.events(session, ContextAssembled))[::2]
    full, named = (
        sum(part.tokens for part in call.manifest.parts if part.layer == "tools") for call in calls
    )
    assert named <= 0.4 * full


async def test_what_it_calls_an_error_is_told_to_the_model(
    served: Platform, everything: Everything
) -> None:
    session = await served.open(kind(everything))
    wanted = takes(("all_get-sum", {"a": "two", "b": 3}))
    await served.turn(session, plans(("Add.", [])), wanted, says("Sorry."), text="Add.")
    assert [each.outcome for each in await served.events(session, ToolReturned)] == ["failed"]


async def test_one_that_was_started_again_has_forgotten_us_and_is_asked_all_the_same(
    served: Platform, everything: Everything
) -> None:
    session = await served.open(kind(everything))
    assert "is 5." in await add(served, session, 2, 3)
    await everything.again()
    assert "is 9." in await add(served, session, 4, 5)
