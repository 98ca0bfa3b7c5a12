"""The MCP project's reference server, which uses the whole protocol, over streamable HTTP.

`make install` installs it where there is npm. It listens on loopback only, and loses its sessions
when it restarts.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from tests.support.processes.process_host import POLL_INTERVAL, find_free_port

ROOT: Final = Path(__file__).parents[3]

PROGRAM: Final = (
    ROOT / ".venv/servers/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
)

LOOPBACK: Final = ROOT / "tests/agent_programs/servers/loopback.mjs"

MISSING_REASON: Final = (
    "there is no node to run it"
    if shutil.which("node") is None
    else "npm did not bring it: remove .venv/servers and `make install`"
    if not PROGRAM.exists()
    else ""
)
"""Why it cannot run here; empty where it can."""


@dataclass(repr=False)
class ReferenceMcpServer:
    """The running server and its address."""

    port: int
    process: Process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def restart_server(self) -> None:
        """Kill it, and start it again on the same port."""
        await _kill_process(self.process)
        self.process = await _start_process(self.port)


@asynccontextmanager
async def run_reference_server() -> AsyncGenerator[ReferenceMcpServer]:
    """Run the server until the body ends."""
    port = find_free_port()
    server = ReferenceMcpServer(port, await _start_process(port))
    try:
        yield server
    finally:
        await _kill_process(server.process)


async def _start_process(port: int) -> Process:
    words = ("--import", str(LOOPBACK), str(PROGRAM), "streamableHttp")
    devnull = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        "node", *words, env={**os.environ, "PORT": str(port)}, stdout=devnull, stderr=devnull
    )
    async with asyncio.timeout(60), httpx.AsyncClient() as client:
        while process.returncode is None:
            with suppress(httpx.TransportError):
                await client.get(f"http://127.0.0.1:{port}/")
                return process
            await asyncio.sleep(POLL_INTERVAL)
    raise AssertionError(f"it ended with {process.returncode}")


async def _kill_process(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()
