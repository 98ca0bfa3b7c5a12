"""A transport that repairs lists of tools before the MCP package validates them.

For one tool whose schema is missing, null or `true` the package refuses the whole list of a server.
Such a tool takes any arguments, and gets a schema that says so.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self, cast

from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse


@asynccontextmanager
async def open_leniently(
    transport: AbstractAsyncContextManager[TransportStreams],
) -> AsyncGenerator[TransportStreams]:
    """Open a transport whose lists of tools are repaired as they come."""
    async with transport as (messages, sending):
        yield _RepairingStream(messages), sending


@dataclass(frozen=True, slots=True)
class _RepairingStream:
    """A stream of messages, with repaired lists of tools."""

    messages: ReadStream[SessionMessage | Exception]

    @property
    def last_context(self) -> object:
        """The context of the sender of the last message, if the stream has one."""
        return getattr(self.messages, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return _repair_message(await self.messages.receive())

    async def aclose(self) -> None:
        await self.messages.aclose()

    def __aiter__(self) -> _RepairingStream:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return _repair_message(await anext(self.messages))

    async def __aenter__(self) -> Self:
        await self.messages.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self.messages.__aexit__(exc_type, exc_val, exc_tb)


def _repair_message(received: SessionMessage | Exception) -> SessionMessage | Exception:
    match received:
        case SessionMessage(message=JSONRPCResponse(result={"tools": [*tools]} as result)):
            repaired = {**result, "tools": [_repair_tool(each) for each in tools]}
            message = received.message.model_copy(update={"result": repaired})
            return replace(received, message=message)
        case _:
            return received


def _repair_tool(tool: object) -> object:
    if not isinstance(tool, dict):
        return tool
    fields = cast("dict[str, Any]", tool)
    schema = fields.get("inputSchema")
    words = cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}
    # Arguments are an object, whatever the schema says
    return {**fields, "inputSchema": {**words, "type": "object"}}
