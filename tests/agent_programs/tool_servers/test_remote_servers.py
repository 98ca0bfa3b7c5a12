"""A tool server over streamable HTTP: called, too slow, too long, killed and restarted."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, PARSE_ERROR

from tests.agent_programs.agent_harness import (
    AgentHarness,
    build_agent_blueprint,
    build_plan_script,
    build_tool_script,
)
from tests.support.processes.process_host import POLL_INTERVAL, find_free_port
from tests.support.sessions.session_harness import TENANT
from turnlog.events.model.tool_events import ToolReturned
from turnlog.projections.blueprint.schema.tool_specs import ConfiguredServerSpec, RemoteServerSpec
from turnlog.services.extensions.mcp_servers_file import load_tools_file
from turnlog.services.worker.tools.mcp_servers import McpToolServers
from turnlog.services.worker.tools.tool_server_types import ToolServerFailure

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass(repr=False)
class RemoteToolServer:
    """A tool server on loopback."""

    port: int
    process: Process

    @property
    def spec(self) -> RemoteServerSpec:
        """As a blueprint names it."""
        return RemoteServerSpec(url=f"http://127.0.0.1:{self.port}/mcp")

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def restart_server(self) -> None:
        self.process = await start_server(self.port)


async def start_server(port: int, *options: str) -> Process:
    words = ("-m", "tests.support.servers.mcp_http_server", "--port", str(port), *options)
    process = await asyncio.create_subprocess_exec(sys.executable, *words)
    async with asyncio.timeout(60), httpx.AsyncClient() as client:
        while process.returncode is None:
            with suppress(httpx.TransportError):
                await client.get(f"http://127.0.0.1:{port}/")
                return process
            await asyncio.sleep(POLL_INTERVAL)
    raise AssertionError(f"it ended with {process.returncode}")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def far() -> AsyncIterator[RemoteToolServer]:
    port = find_free_port()
    server = RemoteToolServer(port, await start_server(port))
    yield server
    await server.kill()


@pytest_asyncio.fixture(loop_scope="module")
async def servers() -> AsyncIterator[McpToolServers]:
    found = McpToolServers()
    yield found
    await found.close()


async def run_tool_turn(
    far: RemoteToolServer, servers: McpToolServers, tool: str, **limits: float
) -> ToolReturned:
    """Have a turn that takes one tool; gives what came of it."""
    spec = {"servers": {"far": {"url": far.spec.url}}, **limits}
    shop = AgentHarness(kind=build_agent_blueprint(tools=spec))
    shop.house.servers = servers
    await shop.open_session()
    name, _, arguments = tool.partition(" ")
    await shop.run_turn(
        build_plan_script(("Do it.", [])), build_tool_script((f"far_{name}", arguments)), ["So."]
    )
    (returned,) = shop.list_events(ToolReturned)
    assert isinstance(returned, ToolReturned)
    if returned.outcome == "answered":
        assert returned.result is not None
        blob = await shop.house.blobs.get_blob(TENANT, returned.result)
        assert len(blob.decode()) == returned.characters
    return returned


async def test_short_result_is_kept_and_long_one_is_condensed_to_its_columns(
    far: RemoteToolServer, servers: McpToolServers
) -> None:
    short = await run_tool_turn(far, servers, 'rows {"count": 2}')
    assert (short.outcome, short.treatment) == ("answered", "kept")
    long = await run_tool_turn(far, servers, 'rows {"count": 1000}')
    assert (long.outcome, long.treatment) == ("answered", "condensed")
    assert "columns id, name" in format_result(long)


def format_result(returned: ToolReturned) -> str:
    return json.dumps(returned.model_dump()["text"])


async def test_failed_tool_is_recorded_and_its_server_is_called_again(
    far: RemoteToolServer, servers: McpToolServers
) -> None:
    failed = await run_tool_turn(far, servers, 'fail {"why": "no stock"}')
    assert failed.outcome == "failed"
    assert "no stock" in format_result(failed)
    assert (await run_tool_turn(far, servers, 'rows {"count": 1}')).outcome == "answered"


async def test_tool_over_its_time_limit_is_lost_and_the_turn_continues(
    far: RemoteToolServer, servers: McpToolServers
) -> None:
    await servers.list_offers("far", far.spec)  # or the connection would count as the tool's time
    lost = await run_tool_turn(far, servers, 'wait {"seconds": 60}', seconds=3)
    assert lost.outcome == "lost"
    assert "lost: no answer in 3 s; it may have been done" in format_result(lost)


@pytest.mark.slow("real tool servers start")
async def test_tool_is_lost_if_its_server_is_killed_while_it_runs(
    far: RemoteToolServer, servers: McpToolServers, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    arguments = json.dumps({"seconds": 60, "file": str(begun)})
    turn = asyncio.create_task(run_tool_turn(far, servers, f"wait {arguments}"))
    while not begun.exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(POLL_INTERVAL)
    await far.kill()
    lost = await turn
    assert lost.outcome == "lost"
    assert "it may have been done" in format_result(lost)
    await far.restart_server()


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(INTERNAL_ERROR, "lost"), (PARSE_ERROR, "lost"), (INVALID_PARAMS, "failed")],
)
async def test_error_code_of_the_server_decides_whether_a_tool_failed_or_is_lost(
    far: RemoteToolServer, servers: McpToolServers, code: int, outcome: str
) -> None:
    # A gateway that answers 502 in the midst of a tool is told by the package as an internal error
    refused = await run_tool_turn(far, servers, f'refuse {{"code": {code}}}')
    assert refused.outcome == outcome
    assert f"{outcome}: no" in format_result(refused)


async def test_result_over_the_byte_limit_is_discarded_but_the_tool_counts_as_done(
    far: RemoteToolServer, servers: McpToolServers
) -> None:
    done = await run_tool_turn(far, servers, 'rows {"count": 500}', most_bytes=1_000)
    assert done.outcome == "answered"
    assert "it was done, but its result has" in format_result(done)
    assert done.characters < 100


@pytest.mark.slow("real tool servers start")
async def test_stopped_server_fails_calls_and_restarted_server_answers_them(
    far: RemoteToolServer, servers: McpToolServers
) -> None:
    await servers.list_offers("far", far.spec)
    await far.kill()
    with pytest.raises(ToolServerFailure):
        await servers.call_tool("far", far.spec, "rows", {"count": 1})
    await far.restart_server()
    assert (await servers.call_tool("far", far.spec, "rows", {"count": 1})).text


@pytest.mark.parametrize("spelling", ["sse", "SSE"])
async def test_server_of_a_tools_file_is_reached_over_server_sent_events(
    tmp_path: Path, spelling: str
) -> None:
    port = find_free_port()
    process = await start_server(port, "--sse")
    file = tmp_path / "mcp.json"
    entry = {"type": spelling, "serverUrl": f"http://127.0.0.1:{port}/sse", "timeout": 60}
    file.write_text(json.dumps({"mcpServers": {"Far Shop": entry}}))
    servers = McpToolServers(tools=load_tools_file(file))
    spec = ConfiguredServerSpec(configured="far-shop")
    try:
        offered = [each.tool for each in await servers.list_offers("far-shop", spec)]
        assert offered == ["rows", "wait", "fail", "refuse", "draw"]
        answer = await servers.call_tool("far-shop", spec, "rows", {"count": 1})
        assert answer.text == '[{"id": 0, "name": "thing 0"}]'
    finally:
        await servers.close()
        process.kill()
        await process.wait()
