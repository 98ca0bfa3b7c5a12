"""Malicious or faulty tool servers harm only the calls that use them."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
from mcp import MCPError

import tests.support.servers.hostile_mcp_server
from tests.support.processes.process_host import POLL_INTERVAL
from turnlog.projections.blueprint.schema.tool_specs import LocalServerSpec
from turnlog.projections.tools.result_condensation import parse_members
from turnlog.services.worker.tools import mcp_servers
from turnlog.services.worker.tools.mcp_server_settings import ServerProgram
from turnlog.services.worker.tools.mcp_servers import McpToolServers
from turnlog.services.worker.tools.tool_server_types import ToolAnswer

pytestmark = pytest.mark.usefixtures("loop_holds")

COMMAND = (sys.executable, "-I", "-S", str(Path(tests.support.servers.hostile_mcp_server.__file__)))

HOSTILE = LocalServerSpec(command=COMMAND)


@pytest_asyncio.fixture
async def servers() -> AsyncIterator[McpToolServers]:
    found = McpToolServers()
    yield found
    await found.close()


async def call_tool(
    servers: McpToolServers, tool: str, spec: LocalServerSpec = HOSTILE
) -> ToolAnswer:
    """Run a tool of the server."""
    return await servers.call_tool("hostile", spec, tool, {})


async def wait_for_exit(pid: int) -> None:
    with suppress(ProcessLookupError):
        while True:
            os.kill(pid, 0)
            await asyncio.sleep(POLL_INTERVAL)


async def test_results_are_not_validated_against_schemas_of_the_server(
    servers: McpToolServers,
) -> None:
    assert (await call_tool(servers, "slow")).text == '{"a":"' + "a" * 40 + '!"}'
    assert int((await call_tool(servers, "texts")).text)


async def test_abandoned_server_process_exits_despite_endless_output(
    servers: McpToolServers,
) -> None:
    pid = int((await call_tool(servers, "who")).text)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await call_tool(servers, "endless")
    async with asyncio.timeout(mcp_servers.CLOSE_SECONDS):
        await wait_for_exit(pid)


async def test_undecodable_bytes_and_arguments_affect_only_their_own_call(
    servers: McpToolServers,
) -> None:
    who = await call_tool(servers, "who")
    async with asyncio.timeout(10):
        assert await call_tool(servers, "garbled") == who
        assert await servers.call_tool("hostile", HOSTILE, "who", {"what": "\ud800"}) == who


async def test_deeply_nested_result_is_condensed_as_text(servers: McpToolServers) -> None:
    deep = await call_tool(servers, "deep")
    assert deep.text == '{"a":' + "[" * 150 + "]" * 150 + "}"
    assert parse_members(deep.text) is None


async def test_arguments_that_break_a_connection_are_not_logged(
    servers: McpToolServers, caplog: pytest.LogCaptureFixture
) -> None:
    program = ServerProgram(HOSTILE.command)
    async with servers.connections.open_request("hostile", program) as request:
        with pytest.raises(MCPError):
            await request.client.call_tool("who", {"what": "secret \ud800"})
    await servers.close()
    del request
    gc.collect()
    assert not caplog.records


async def test_tool_error_with_the_code_of_a_closed_connection_keeps_its_message(
    servers: McpToolServers,
) -> None:
    who = await call_tool(servers, "who")
    refused = await call_tool(servers, "refuse")
    assert (refused.text, refused.failed) == ("there are no more of them", True)
    assert await call_tool(servers, "who") == who


async def test_least_recently_used_servers_are_closed_above_the_connection_limit(
    servers: McpToolServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_servers, "MAX_CONNECTIONS", 2)
    first, second, third = (LocalServerSpec(command=(*COMMAND, name)) for name in "abc")
    one, two = [int((await call_tool(servers, "who", each)).text) for each in (first, second)]
    assert int((await call_tool(servers, "who", first)).text) == one
    assert int((await call_tool(servers, "who", third)).text)
    async with asyncio.timeout(mcp_servers.CLOSE_SECONDS):
        await wait_for_exit(two)
    assert int((await call_tool(servers, "who", first)).text) == one
