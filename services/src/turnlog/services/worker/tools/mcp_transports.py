"""Connections to servers by the package that speaks MCP; loaded when a server is first asked.

Loading it takes seconds, and most workers never speak to a server of tools.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, assert_never

import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    CallToolResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from turnlog.projections.blueprint.storable import mended
from turnlog.projections.blueprint.tools import LocalServer, RemoteServer, ServerSpec
from turnlog.services.worker.tools.exchange import Answered
from turnlog.services.worker.tools.leash import leashed

_UNSURE: Final = frozenset({CONNECTION_CLOSED, INTERNAL_ERROR, PARSE_ERROR, REQUEST_TIMEOUT})
"""After these a request may have been done; the package says so itself where HTTP failed."""
LIFE: Final = 2.0
"""Seconds that a sign of life may take."""


async def refusal(client: Client, error: Exception) -> Answered | None:
    """Give what a server said against a request; none where there was no answer at all."""
    if not isinstance(error, MCPError):
        return None
    # Many servers refuse by the code of a connection that is closed, while theirs is not
    if error.code == CONNECTION_CLOSED and not await alive(client):
        return None
    return Answered(mended(str(error)), failed=True, unsure=error.code in _UNSURE)


def wording(error: BaseException | None) -> str:
    """Say of what a connection failed, in words of our own."""
    match error:
        case MCPError(code=code) if code == CONNECTION_CLOSED:
            return "it ended before it said what it is"
        case MCPError():
            return "it refused to be spoken to"
        case httpx2.ConnectError():
            return "nobody listens at its address"
        case httpx2.HTTPError():
            return f"it cannot be spoken to over HTTP ({type(error).__name__})"
        case _:
            return f"it cannot be spoken to ({type(error).__name__})"


async def alive(client: Client) -> bool:
    """Ask for a sign of life, as the protocol that was agreed on has it."""
    try:
        async with asyncio.timeout(LIFE):
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                await client.session.send_discover(client.protocol_version)
            else:
                await client.session.send_ping()
    except Exception:  # noqa: BLE001 - whatever broke, there is none
        return False
    return True


@asynccontextmanager
async def connected(spec: ServerSpec) -> AsyncGenerator[Client]:
    """Give a client of a server; a program ends when it is left."""
    # Its log repeats what servers say, and so what prompts and results say
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    async with _opened(spec) as client:
        client.session.validate_tool_result = _as_it_came  # type: ignore[method-assign]
        yield client


async def _as_it_came(name: str, result: CallToolResult) -> None:
    """Take a result as it came: by a schema of a stranger a worker may be busy for hours."""


@asynccontextmanager
async def _opened(spec: ServerSpec) -> AsyncGenerator[Client]:
    match spec:
        case LocalServer():
            async with _started(spec) as client:
                yield client
        case RemoteServer(url=url, headers_from=named):
            headers = {name: os.environ.get(of, "") for name, of in named.items()}
            async with (
                create_mcp_http_client(headers) as http,
                Client(streamable_http_client(url, http_client=http)) as client,
            ):
                yield client
        case _ as never:
            assert_never(never)


@asynccontextmanager
async def _started(spec: LocalServer) -> AsyncGenerator[Client]:
    program, *arguments = leashed(spec.command)
    environment = {name: os.environ[name] for name in spec.env_from if name in os.environ}
    server = StdioServerParameters(
        command=program,
        args=arguments,
        env=environment,
        # Or after bytes that are no text nobody hears anything of it any more
        encoding_error_handler="replace",
    )
    # What a program writes beside its answers may repeat prompts
    with Path(os.devnull).open("w") as nowhere:  # noqa: ASYNC230 - nobody waits for it
        async with Client(stdio_client(server, errlog=nowhere)) as client:
            yield client
