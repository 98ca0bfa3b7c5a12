"""A tool server that is not required and cannot be asked costs its own tools and no turn.

The shipped `uderia` takes all servers of a tools file; the servers are real programs and addresses.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import tests.support.servers.mcp_stdio_server
from tests.agent_programs.agent_harness import (
    FakeToolServer,
    build_agent_blueprint,
    build_loop_blueprint,
)
from tests.agent_programs.agent_service import AgentService, answer_with_plan, answer_with_text
from tests.agent_programs.tool_servers.test_tool_snapshots import CountingBlobs
from tests.support.processes.process_host import find_free_port
from turnlog.events.errors import Unavailable
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.tool_events import ToolsSnapshotted
from turnlog.projections.blueprint.schema.tool_specs import ServerSpec, ToolsSpec
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.extensions.mcp_servers_file import load_tools_file
from turnlog.services.platform.process_health import is_ready
from turnlog.services.worker.tools.mcp_servers import McpToolServers
from turnlog.services.worker.tools.tool_server_types import ToolServerFailure
from turnlog.services.worker.tools.tool_snapshots import SnapshotRequest, ToolSnapshots

pytestmark = pytest.mark.asyncio(loop_scope="module")

STDIO_SERVER = str(Path(tests.support.servers.mcp_stdio_server.__file__))

SMALL = {"command": sys.executable, "args": ["-I", "-S", STDIO_SERVER], "only": ["who"]}

UNREACHABLE: dict[str, Any] = {"type": "http", "url": f"http://127.0.0.1:{find_free_port()}/mcp"}

BROKEN_SERVERS: dict[str, tuple[dict[str, Any], str]] = {
    "nobody listens": (UNREACHABLE, "tools_unreachable: nobody listens at its address"),
    "SSE": ({**UNREACHABLE, "type": "sse"}, "tools_unreachable: "),
    "it ends": (
        {"command": sys.executable, "args": [STDIO_SERVER, "Traceback"]},
        "tools_not_started: it ended before it said what it is",
    ),
    "no program": ({"command": "no-such-program"}, "tools_not_started: there is no program"),
    "it hangs": (
        {"command": sys.executable, "args": ["-c", "input(); input()"], "timeout": 0.3},
        "tools_timeout: it took more than 0.3 s",
    ),
}
"""Servers that cannot be asked, by what is wrong, each with the reason that is recorded."""


@asynccontextmanager
async def serve_tools_file(
    platform: AgentService, file: Path, servers: dict[str, Any]
) -> AsyncGenerator[AgentService]:
    """Run the service with a tools file."""
    await asyncio.to_thread(file.write_text, json.dumps({"mcpServers": servers}))
    platform.worker.servers = found = McpToolServers(tools=load_tools_file(file))
    async with platform.gateway.start_another_gateway(tools=file) as gateway:
        yield replace(platform, gateway=gateway)
    await found.close()


@pytest.mark.slow("turns of several calls run over HTTP")
@pytest.mark.parametrize("fault", BROKEN_SERVERS)
async def test_turn_goes_on_without_a_server_of_the_tools_file_that_cannot_be_asked(
    platform: AgentService, tmp_path: Path, fault: str
) -> None:
    broken, reason = BROKEN_SERVERS[fault]
    servers = {"small": SMALL, "Other Shop": broken}
    async with serve_tools_file(platform, tmp_path / "mcp.json", servers) as service:
        session = await service.open_shipped_session("uderia", profile="tool_enabled")
        answers = (answer_with_plan(), answer_with_text("Hello."))
        await service.complete_turn(session, *answers, text="Just say hello.")
        await service.complete_turn(session, *answers, text="Once more.")
    (snapshot,) = await service.load_events(session, ToolsSnapshotted)
    assert [*snapshot.tools] == ["small_who"]
    assert snapshot.servers_left_out.keys() == {"other-shop"}
    assert snapshot.servers_left_out["other-shop"].startswith(reason)
    line = "Not available in this session: the tools of Other Shop."
    first, _, later, _ = (body["messages"][0]["content"] for body in service.bodies)
    assert line in first
    assert line in later
    ended = await service.load_events(session, AttemptEnded)
    assert all(each.fault is None for each in ended)


@pytest.mark.slow("turns of several calls run over HTTP")
async def test_new_session_has_the_tools_of_a_server_that_came_back(
    platform: AgentService, tmp_path: Path
) -> None:
    script = tmp_path / "server.py"
    late = {**SMALL, "args": ["-I", "-S", str(script)]}
    servers = {"small": SMALL, "late": late}
    async with serve_tools_file(platform, tmp_path / "mcp.json", servers) as service:
        answers = (answer_with_plan(), answer_with_text("Hello."))
        before = await service.open_shipped_session("uderia", profile="tool_enabled")
        await service.complete_turn(before, *answers)
        await asyncio.to_thread(shutil.copy, STDIO_SERVER, script)
        after = await service.open_shipped_session("uderia", profile="tool_enabled")
        await service.complete_turn(after, *answers)
        await service.complete_turn(before, *answers)
    (with_both,) = await service.load_events(after, ToolsSnapshotted)
    assert [*with_both.tools] == ["small_who", "late_who"]
    assert with_both.servers_left_out == {}
    (kept,) = await service.load_events(before, ToolsSnapshotted)
    assert [*kept.tools] == ["small_who"]


@pytest.mark.parametrize("option", [{}, {"required": True}])
async def test_turn_fails_without_a_server_that_a_blueprint_names_itself(
    platform: AgentService, option: dict[str, bool]
) -> None:
    platform.worker.servers = servers = McpToolServers()
    server = {"url": UNREACHABLE["url"], **option}
    retries = {"retries": {"base_seconds": 0}}
    kind = build_loop_blueprint(tools={"servers": {"far": server}}, policies=retries)
    turn = await platform.submit_turn(await platform.open_session(kind))
    await servers.close()
    assert turn["status"] == "failed"
    assert turn["detail"] == "far: nobody listens at its address"


async def test_turn_goes_on_without_a_server_that_a_blueprint_does_not_require(
    platform: AgentService,
) -> None:
    platform.worker.servers = servers = McpToolServers()
    server = {"url": UNREACHABLE["url"], "required": False, "approve": ["pay"]}
    session = await platform.open_session(build_loop_blueprint(tools={"servers": {"far": server}}))
    await platform.complete_turn(session, answer_with_text("Hello."))
    await servers.close()
    (snapshot,) = await platform.load_events(session, ToolsSnapshotted)
    assert (snapshot.tools, [*snapshot.servers_left_out]) == ({}, ["far"])


@dataclass(kw_only=True)
class FlakyToolServers(FakeToolServer):
    """Tool servers that fail by their name, and which were asked."""

    failures: dict[str, ToolServerFailure] = field(default_factory=dict[str, ToolServerFailure])
    asked: list[str] = field(default_factory=list[str])
    all_asked: asyncio.Event = field(default_factory=asyncio.Event)
    waits_for_all: int = 0
    """If it is set, no server answers before so many were asked."""

    async def list_offers(self, server: str, spec: ServerSpec) -> tuple[ToolOffer, ...]:
        """See `ToolServers.list_offers`."""
        self.asked.append(server)
        if len(self.asked) == self.waits_for_all:
            self.all_asked.set()
        if self.waits_for_all:
            await self.all_asked.wait()
        if server in self.failures:
            raise self.failures[server]
        return await super().list_offers(server, spec)


def build_spec(*optional: str) -> ToolsSpec:
    servers = {name: {"command": [name], "required": False} for name in optional}
    spec = build_agent_blueprint(tools={"servers": servers}).tools
    assert spec
    return spec


async def take_snapshot(
    snapshots: ToolSnapshots, servers: FlakyToolServers, spec: ToolsSpec
) -> ToolsSnapshotted:
    request = SnapshotRequest(
        servers=servers, blobs=CountingBlobs(), tenant="t", profile="agent", spec=spec
    )
    return await snapshots.snapshot_tools(request)


async def test_server_that_hung_is_not_asked_again_at_once_and_others_are() -> None:
    late = ToolServerFailure("tools_timeout", "slow: it took more than 30 s to say what it has")
    gone = ToolServerFailure("tools_unreachable", "gone: nobody listens at its address")
    servers, snapshots = FlakyToolServers(failures={"slow": late, "gone": gone}), ToolSnapshots()
    spec = build_spec("slow", "gone", "shop")
    first = await take_snapshot(snapshots, servers, spec)
    assert first.servers_left_out == {
        "slow": "tools_timeout: it took more than 30 s to say what it has",
        "gone": "tools_unreachable: nobody listens at its address",
    }
    assert await take_snapshot(snapshots, servers, spec) == first
    assert {name: servers.asked.count(name) for name in ("slow", "gone", "shop")} == {
        "slow": 1,
        "gone": 2,
        "shop": 2,
    }


async def test_servers_are_asked_at_the_same_time() -> None:
    servers = FlakyToolServers(waits_for_all=3)
    async with asyncio.timeout(60):
        snapshot = await take_snapshot(ToolSnapshots(), servers, build_spec("a", "b", "c"))
    assert {pin.server for pin in snapshot.tools.values()} == {"a", "b", "c"}


async def test_readiness_names_servers_that_did_not_answer_while_the_process_stays_ready() -> None:
    gone = ToolServerFailure("tools_unreachable", "gone: nobody listens at its address")
    servers, snapshots = FlakyToolServers(failures={"gone": gone}), ToolSnapshots()
    await take_snapshot(snapshots, servers, build_spec("gone", "shop"))
    with pytest.raises(Unavailable, match="gone: nobody listens at its address"):
        await snapshots.require_all_available()
    assert is_ready({"tools": "gone: nobody listens at its address", "log": None})
    servers.failures.clear()
    await take_snapshot(snapshots, servers, build_spec("gone", "shop"))
    await snapshots.require_all_available()


async def test_optional_server_without_a_tool_that_is_to_be_approved_is_left_out() -> None:
    servers = {"shop": {"command": ["s"], "approve": ["buy"], "required": False}}
    spec = build_agent_blueprint(tools={"servers": servers}).tools
    assert spec
    snapshot = await take_snapshot(ToolSnapshots(), FlakyToolServers(), spec)
    assert snapshot.tools == {}
    assert "tools that it does not have: buy" in snapshot.servers_left_out["shop"]
