"""The tool servers of a session begin when it is opened, so that its first turn does not wait.

The server is a program that takes three seconds to start; it reports to the test when it starts.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

import tests.support.servers.mcp_stdio_server
from tests.agent_programs.agent_harness import build_loop_blueprint
from tests.agent_programs.agent_service import (
    AgentService,
    answer_with_text,
    answer_with_tool_calls,
)
from tests.support.processes.process_host import POLL_INTERVAL
from turnlog.events.errors import Unavailable
from turnlog.events.model.call_events import AttemptStarted
from turnlog.events.model.tool_events import ToolsSnapshotted
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.services.worker.tools.mcp_servers import McpToolServers
from turnlog.services.worker.tools.tool_snapshots import ToolSnapshots

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow("a tool server takes three seconds to start"),
]

START_SECONDS: Final = 3.0

STDIO_SERVER: Final = str(Path(tests.support.servers.mcp_stdio_server.__file__))

SLOW_START: Final = """
import os, socket, sys, time
reported = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
reported.sendall(b"starting\\n")
time.sleep(float(sys.argv[2]))
reported.sendall(b"started\\n")
reported.close()
os.execv(sys.executable, [sys.executable, "-I", "-S", sys.argv[3]])
"""


@dataclass(repr=False)
class ServerStarts:
    """What the programs have reported."""

    starting: int = 0
    started: asyncio.Event = field(default_factory=asyncio.Event)

    async def read_report(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readline() == b"starting\n"
        self.starting += 1
        if await reader.readline():
            self.started.set()
        writer.close()


@pytest_asyncio.fixture(loop_scope="module")
async def starts() -> AsyncIterator[ServerStarts]:
    yield ServerStarts()


@pytest_asyncio.fixture(loop_scope="module")
async def slow(starts: ServerStarts) -> AsyncIterator[Blueprint]:
    """A blueprint with a server that starts slowly."""
    async with await asyncio.start_server(starts.read_report, "127.0.0.1", 0) as listening:
        port = str(listening.sockets[0].getsockname()[1])
        words = (sys.executable, "-c", SLOW_START, port, str(START_SECONDS), STDIO_SERVER)
        yield build_loop_blueprint(
            blueprint="slow", tools={"servers": {"small": {"command": words}}}
        )


@pytest_asyncio.fixture(loop_scope="module")
async def served(platform: AgentService) -> AsyncIterator[AgentService]:
    platform.worker.servers = McpToolServers()
    platform.worker.tool_snapshots = ToolSnapshots()
    yield platform
    await platform.worker.tool_snapshots.close()
    await platform.worker.servers.close()


async def test_first_turn_does_not_wait_for_a_server_that_began_when_the_session_was_opened(
    served: AgentService, slow: Blueprint, starts: ServerStarts
) -> None:
    session = await served.open_session(slow)
    assert not starts.started.is_set()  # The opening did not wait.
    async with asyncio.timeout(60):
        await starts.started.wait()
    call = answer_with_tool_calls(("small_who", {}))
    await served.complete_turn(session, call, answer_with_text("Done."))
    recorded = await served.load_recorded_events(session)
    begun, pinned = (
        next(each for each in recorded if isinstance(each.event, kind))
        for kind in (AttemptStarted, ToolsSnapshotted)
    )
    since, until = (datetime.fromisoformat(each.envelope.time) for each in (begun, pinned))
    assert (until - since).total_seconds() < START_SECONDS
    assert isinstance(pinned.event, ToolsSnapshotted)
    assert "small_who" in pinned.event.tools
    assert starts.starting == 1


async def test_turn_that_comes_before_the_server_has_begun_waits_for_the_same_start(
    served: AgentService, slow: Blueprint, starts: ServerStarts
) -> None:
    session = await served.open_session(slow)
    await served.complete_turn(session, answer_with_text("Done."))
    assert starts.started.is_set()
    assert starts.starting == 1


async def test_sessions_that_are_never_used_start_a_server_once_and_others_start_none(
    served: AgentService, slow: Blueprint, starts: ServerStarts
) -> None:
    chat = {"default": True, "call": "converse", "tools": "none"}
    plain = build_loop_blueprint(blueprint="plain", profiles={"agent": chat}, tools=slow.tools)
    await served.open_session(plain)
    await asyncio.gather(*(served.open_session(slow) for _ in range(20)))
    async with asyncio.timeout(60):
        await starts.started.wait()
    session = await served.open_session(slow)
    await served.complete_turn(session, answer_with_text("Done."))
    assert starts.starting == 1


async def has_answers(snapshots: ToolSnapshots) -> bool:
    try:
        await snapshots.require_all_available()
    except Unavailable:
        return False
    return True


async def test_server_that_fails_early_fails_no_opening_and_is_tried_again_by_the_first_turn(
    served: AgentService, tmp_path: Path
) -> None:
    script = tmp_path / "server.py"
    servers = {"small": {"command": (sys.executable, "-I", "-S", str(script))}}
    session = await served.open_session(
        build_loop_blueprint(blueprint="late", tools={"servers": servers})
    )
    async with asyncio.timeout(60):
        while await has_answers(served.worker.tool_snapshots):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(POLL_INTERVAL)
    await asyncio.to_thread(shutil.copy, STDIO_SERVER, script)
    await served.complete_turn(session, answer_with_text("Done."))
