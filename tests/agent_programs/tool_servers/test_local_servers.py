"""Tool servers that a worker starts: called, hung, dead, and started again at the next call."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import tests.support.servers.mcp_stdio_server
from tests.support.processes.process_host import POLL_INTERVAL
from turnlog.projections.blueprint.schema.tool_specs import LocalServerSpec
from turnlog.services.worker.tools.mcp_servers import McpToolServers
from turnlog.services.worker.tools.tool_server_types import ToolServerFailure

SMALL = LocalServerSpec(
    command=(sys.executable, "-I", "-S", str(Path(tests.support.servers.mcp_stdio_server.__file__)))
)


@pytest_asyncio.fixture
async def servers() -> AsyncIterator[McpToolServers]:
    found = McpToolServers()
    yield found
    await found.close()


async def call_tool(servers: McpToolServers, tool: str, **arguments: str) -> str:
    """Run a tool of the small server."""
    return (await servers.call_tool("small", SMALL, tool, arguments)).text


async def test_hung_server_is_replaced_at_the_next_call(
    servers: McpToolServers,
) -> None:
    first = await call_tool(servers, "who")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await call_tool(servers, "hang")
    second = await call_tool(servers, "who")
    assert second != first
    assert await call_tool(servers, "who") == second


async def test_dead_server_is_restarted_at_the_next_call(
    servers: McpToolServers,
) -> None:
    first = await call_tool(servers, "who")
    with pytest.raises(ToolServerFailure):
        await call_tool(servers, "die")
    second = await call_tool(servers, "who")
    assert second != first
    os.kill(int(second), 9)
    assert await call_tool(servers, "who") not in {first, second}


async def test_pending_call_is_not_interrupted_by_other_calls_to_its_server(
    servers: McpToolServers, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    waiting = asyncio.create_task(call_tool(servers, "hang", file=str(begun)))
    while not begun.exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(POLL_INTERVAL)
    assert await call_tool(servers, "who")
    assert not waiting.done()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_server_programs_exit_when_the_worker_closes() -> None:
    servers = McpToolServers()
    pid = int(await call_tool(servers, "who"))
    await servers.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_tool_list_of_a_server_is_requested_once_per_cache_period() -> None:
    servers, eager = McpToolServers(), McpToolServers(cache_seconds=0)
    for each, expected in ((servers, "1"), (eager, "2")):
        assert await each.list_offers("small", SMALL) == await each.list_offers("small", SMALL)
        assert await call_tool(each, "listed") == expected
        await each.close()


async def test_server_declares_which_of_its_tools_are_idempotent(servers: McpToolServers) -> None:
    offers = await servers.list_offers("small", SMALL)
    assert {offer.tool for offer in offers if offer.idempotent} == {"who", "listed"}


async def test_missing_program_fails_with_tools_not_started(servers: McpToolServers) -> None:
    with pytest.raises(ToolServerFailure, match="tools_not_started: gone: there is no program"):
        await servers.list_offers("gone", LocalServerSpec(command=("no-such-program",)))


@pytest.mark.parametrize("schema", [None, True, "absent", {}, {"type": None}, []])
async def test_tool_without_a_usable_schema_takes_any_arguments_and_others_stay(
    servers: McpToolServers, monkeypatch: pytest.MonkeyPatch, schema: object
) -> None:
    monkeypatch.setenv("EXTRA_TOOLS", json.dumps({"odd": schema}))
    spec = LocalServerSpec(command=SMALL.command, env_from=("EXTRA_TOOLS",), only=("who", "odd"))
    offers = {each.tool: each.schema for each in await servers.list_offers("small", spec)}
    assert offers["odd"] == {"type": "object"}
    assert "who" in offers
    assert (await servers.call_tool("small", spec, "odd", {"any": 1})).text.isdecimal()
