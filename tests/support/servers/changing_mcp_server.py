"""A tool server over streamable HTTP, in the process of the test, whose list of tools changes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.subscriptions import InMemorySubscriptionBus, ToolsListChanged
from mcp_types import Tool

from tests.support.processes.process_host import POLL_INTERVAL


class CountedServer(MCPServer):
    """A server that counts how often its tools are listed."""

    list_count = 0

    async def list_tools(self) -> list[Tool]:
        self.list_count += 1
        return await super().list_tools()


@dataclass(repr=False)
class ChangingMcpServer:
    """A running server; its tools return their name and what they are called with."""

    port: int
    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)

    http: uvicorn.Server = field(init=False)
    serving: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.server = CountedServer("shop", subscriptions=self.bus)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def put_tool(self, name: str, description: str) -> None:
        """Add a tool, or describe it otherwise."""

        async def run(what: str) -> str:
            return f"{name} {what}"

        with suppress(ToolError):
            self.server.remove_tool(name)
        self.server.add_tool(run, name, description=description)

    async def stop(self) -> None:
        """End the connections of its clients, and accept no others."""
        self.http.should_exit = True
        await self.serving

    async def report_change(self) -> None:
        """Tell all clients that the list has changed."""
        await self.bus.publish(ToolsListChanged())


@asynccontextmanager
async def run_changing_server() -> AsyncGenerator[ChangingMcpServer]:
    """Run a server with the tools `look` and `pay` until the body ends."""
    listening = socket.create_server(("127.0.0.1", 0))
    changing = ChangingMcpServer(int(listening.getsockname()[1]))
    changing.put_tool("look", "Looks for a thing.")
    changing.put_tool("pay", "Pays for it.")
    app = changing.server.streamable_http_app()
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
    changing.http = uvicorn.Server(config)
    changing.serving = asyncio.create_task(changing.http.serve(sockets=[listening]))
    while not changing.http.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(POLL_INTERVAL)
    try:
        yield changing
    finally:
        await changing.stop()
