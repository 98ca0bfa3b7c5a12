"""A tool server over streamable HTTP, as a process that a test may kill.

`python -m tests.support.servers.mcp_http_server --port N` serves until it is stopped; `--stdio`
serves one client over its pipes. Its tools
return as many rows as requested, take time, and raise errors.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp_types import ImageContent


def build_server() -> MCPServer:
    server = MCPServer("shop")

    @server.tool()
    def rows(count: int, width: int = 0) -> str:
        """Give so many rows, each of at least as many characters as `width`."""
        names = [f"thing {n}".ljust(width, ".") for n in range(count)]
        return json.dumps([{"id": n, "name": name} for n, name in enumerate(names)])

    @server.tool()
    async def wait(seconds: float, file: str | None = None) -> str:
        """Take so long; makes a file first, where it is given one."""
        if file:
            Path(file).touch()  # noqa: ASYNC240 - nobody waits for it
        await asyncio.sleep(seconds)
        return "done"

    @server.tool()
    def fail(why: str) -> str:
        """Raise."""
        raise ValueError(why)

    @server.tool()
    def refuse(code: int) -> str:
        """Answer with an error of the protocol."""
        raise MCPError(code, "no")

    @server.tool()
    def draw(picture: str) -> ImageContent:
        """Give a picture whose bytes are these, in base64."""
        return ImageContent(type="image", data=picture, mime_type="image/png")

    del rows, wait, fail, refuse, draw
    return server


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve tools over HTTP.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--sse", action="store_true", help="use the older transport, at /sse")
    parser.add_argument("--stdio", action="store_true", help="serve one client by pipes instead")
    found = parser.parse_args()
    if found.stdio:
        build_server().run("stdio")
    elif found.sse:
        build_server().run("sse", host="127.0.0.1", port=found.port)
    else:
        build_server().run("streamable-http", host="127.0.0.1", port=found.port)


if __name__ == "__main__":
    main()
