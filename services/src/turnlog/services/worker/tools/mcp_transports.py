"""Connections to servers through the MCP package; imported when a server is first needed.

The import takes seconds, and most workers never use a tool server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final, assert_never

import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.session import MessageHandlerFnT
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    CallToolResult,
    PromptListChangedNotification,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from turnlog.events.storable_text import replace_unstorable
from turnlog.services.worker.tools.child_process import wrap_command
from turnlog.services.worker.tools.lenient_transport import open_leniently
from turnlog.services.worker.tools.mcp_server_settings import (
    ServerAddress,
    ServerEndpoint,
    ServerProgram,
)
from turnlog.services.worker.tools.stderr_tail import StderrTail
from turnlog.services.worker.tools.tool_server_types import ToolAnswer

_UNSURE_CODES: Final = frozenset({CONNECTION_CLOSED, INTERNAL_ERROR, PARSE_ERROR, REQUEST_TIMEOUT})
"""After these errors a request may have been executed; the package uses them if HTTP failed."""
_LISTEN_PAUSE: Final = 5.0
"""Seconds after which a server is asked again to say when its lists change."""

PING_SECONDS: Final = 2.0
"""Seconds that a ping may take."""


async def find_refusal(client: Client, error: Exception) -> ToolAnswer | None:
    """Return what a server answered against a request; None if it did not answer."""
    if not isinstance(error, MCPError):
        return None
    # Many servers refuse with the code of a closed connection although theirs is open
    if has_connection_closed(error) and not await is_alive(client):
        return None
    return ToolAnswer(
        replace_unstorable(str(error)), failed=True, unsure=error.code in _UNSURE_CODES
    )


def has_connection_closed(error: BaseException | None) -> bool:
    """Return whether a server closed the connection before it answered."""
    return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED


def describe_error(error: BaseException | None) -> str:
    """Describe why a connection failed, without the server's own text."""
    match error:
        case MCPError() if has_connection_closed(error):
            return "it ended before it said what it is"
        case MCPError():
            return "it refused to be spoken to"
        case httpx2.ConnectError():
            return "nobody listens at its address"
        case httpx2.HTTPError():
            return f"it cannot be spoken to over HTTP ({type(error).__name__})"
        case _:
            return f"it cannot be spoken to ({type(error).__name__})"


async def is_alive(client: Client) -> bool:
    """Ping a server by the protocol version that was negotiated."""
    try:
        async with asyncio.timeout(PING_SECONDS):
            if client.protocol_version in MODERN_PROTOCOL_VERSIONS:
                await client.session.send_discover(client.protocol_version)
            else:
                await client.session.send_ping()
    except Exception:  # noqa: BLE001 - whatever broke, there is none
        return False
    return True


@asynccontextmanager
async def open_client(
    endpoint: ServerEndpoint, stderr: StderrTail, report_change: Callable[[], None]
) -> AsyncGenerator[Client]:
    """Yield a client of a server; its program writes to `stderr` and is stopped at the end.

    `report_change` is called when the server says that its tools or prompts have changed.
    """
    # The package's log repeats what servers send, and so prompts and results
    logging.getLogger("mcp").setLevel(logging.CRITICAL)

    async def read_message(message: object) -> None:
        if isinstance(message, ToolListChangedNotification | PromptListChangedNotification):
            report_change()

    async with _open_client(endpoint, stderr, read_message) as client:
        client.session.validate_tool_result = _accept_result  # type: ignore[method-assign]
        yield client


async def watch_lists(client: Client, report_change: Callable[[], None]) -> None:
    """Ask a server to say when its lists change; by older protocols it does so unasked.

    One that cannot say it is asked for its lists when they are old.
    """
    while client.protocol_version in MODERN_PROTOCOL_VERSIONS:
        try:
            async with client.listen(tools_list_changed=True, prompts_list_changed=True) as changes:
                async for _ in changes:
                    report_change()
        except SubscriptionLost:
            pass
        except MCPError:
            return
        report_change()  # Nobody says what has changed since.
        await asyncio.sleep(_LISTEN_PAUSE)


async def _accept_result(name: str, result: CallToolResult) -> None:
    """Accept a result without validation: a hostile schema may keep a worker busy for hours."""


@asynccontextmanager
async def _open_client(
    endpoint: ServerEndpoint, stderr: StderrTail, read_message: MessageHandlerFnT
) -> AsyncGenerator[Client]:
    match endpoint:
        case ServerProgram():
            async with _start_program(endpoint, stderr, read_message) as client:
                yield client
        case ServerAddress(url=url, headers=headers, transport="sse"):
            over = open_leniently(sse_client(url, dict(headers)))
            async with Client(over, message_handler=read_message) as client:
                yield client
        case ServerAddress(url=url, headers=headers):
            async with create_mcp_http_client(dict(headers)) as http:
                over = open_leniently(streamable_http_client(url, http_client=http))
                async with Client(over, message_handler=read_message) as client:
                    yield client
        case _ as never:
            assert_never(never)


@asynccontextmanager
async def _start_program(
    endpoint: ServerProgram, stderr: StderrTail, read_message: MessageHandlerFnT
) -> AsyncGenerator[Client]:
    program, *arguments = wrap_command(endpoint.command)
    server = StdioServerParameters(
        command=program,
        args=arguments,
        env=dict(endpoint.environment),
        cwd=endpoint.folder,
        # Otherwise the connection hangs after bytes that are not valid text
        encoding_error_handler="replace",
    )
    over = open_leniently(stdio_client(server, errlog=stderr.file))
    async with Client(over, message_handler=read_message) as client:
        stderr.file.close()
        yield client
