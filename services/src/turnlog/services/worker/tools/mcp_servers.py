"""Servers that speak MCP: programs that the worker starts, and addresses over streamable HTTP.

A connection is made when a server is first asked, and kept. It lives in a task of its own, since
what the package opens must be closed by the very task that opened it, and a turn that is cut off
must not take a server away from others. One that breaks is made anew by whoever asks next; nothing
is asked twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from turnlog.projections.blueprint.storable import mended
from turnlog.projections.blueprint.tools import ServerSpec
from turnlog.projections.tools.offers import Offer
from turnlog.projections.window.request import canonical
from turnlog.services.runtime.aside import aside
from turnlog.services.runtime.tasks import stopped
from turnlog.services.worker.tools.exchange import Answered, ServerFailure

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult

MOST_PAGES: Final = 50
"""Pages of a server's list of tools; one that never ends is not followed."""
LEAVE: Final = 1.5
"""Seconds that a server is given to end; its input is closed by then, so it ends without us too."""


@dataclass(frozen=True, slots=True)
class _Link:
    """One connection: a client, once it is there, and the task that holds it open."""

    client: asyncio.Future[Client]
    holding: asyncio.Task[None]
    leaving: asyncio.Event
    """Set to have it closed: a task that is cancelled has no time to end a program."""

    async def left(self) -> None:
        """Close the connection."""
        self.leaving.set()
        await asyncio.wait({self.holding}, timeout=LEAVE)
        await stopped(self.holding)


@dataclass
class McpServers:
    """The servers of a worker."""

    _links: dict[str, _Link] = field(default_factory=dict[str, _Link])

    async def offers(self, server: str, spec: ServerSpec) -> tuple[Offer, ...]:
        """See `ToolServers.offers`."""
        client = await self._client(server, spec)
        try:
            return tuple([offer async for offer in _listed(client)])
        except Exception as error:  # noqa: BLE001 - whatever broke, the server cannot be asked
            raise await self._broken(server, spec, error) from None

    async def ask(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> Answered:
        """See `ToolServers.ask`."""
        client = await self._client(server, spec)
        try:
            result = await client.call_tool(tool, dict(arguments))
        except Exception as error:  # noqa: BLE001 - whatever broke, the server cannot be asked
            if said := _transports().refusal(error):
                return Answered(mended(said), failed=True)
            raise await self._broken(server, spec, error) from None
        return Answered(mended(_text(result)), failed=result.is_error)

    async def close(self) -> None:
        """See `ToolServers.close`."""
        links, self._links = self._links, {}
        await asyncio.gather(*(link.left() for link in links.values()))

    async def _client(self, server: str, spec: ServerSpec) -> Client:
        key = _key(server, spec)
        link = self._links.get(key)
        if link is None or link.holding.done():
            link = self._links[key] = _linked(spec)
        either: set[asyncio.Future[Any]] = {link.client, link.holding}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if link.client.done():
            return link.client.result()
        self._links.pop(key, None)
        error = link.holding.exception()
        raise ServerFailure("tools_unreachable", f"{server}: {type(error).__name__}")

    async def _broken(self, server: str, spec: ServerSpec, error: Exception) -> ServerFailure:
        """Let go of a connection that failed; what it failed of is named, never repeated."""
        link = self._links.pop(_key(server, spec), None)
        if link is not None:
            await link.left()
        return ServerFailure("tools_failed", f"{server}: {type(error).__name__}")


def _key(server: str, spec: ServerSpec) -> str:
    return f"{server} {spec.model_dump_json()}"


def _linked(spec: ServerSpec) -> _Link:
    client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    leaving = asyncio.Event()
    return _Link(client, asyncio.create_task(_held_open(spec, client, leaving)), leaving)


async def _held_open(
    spec: ServerSpec, client: asyncio.Future[Client], leaving: asyncio.Event
) -> None:
    transports = await aside(_transports)
    async with transports.connected(spec) as connected:
        client.set_result(connected)
        await leaving.wait()


def _transports() -> ModuleType:
    return import_module("turnlog.services.worker.tools.mcp_transports")


async def _listed(client: Client) -> AsyncGenerator[Offer]:
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            yield Offer(tool.name, mended(tool.description or ""), dict(tool.input_schema))
        cursor = page.next_cursor
        if cursor is None:
            return


def _text(result: CallToolResult) -> str:
    """Give what a result says: its value where it has one, else its texts."""
    if result.structured_content is not None:
        value = _unwrapped(result.structured_content)
        return value if isinstance(value, str) else canonical(value)
    blocks = ((getattr(block, "text", None), block.type) for block in result.content)
    return "\n".join(text if isinstance(text, str) else f"({kind})" for text, kind in blocks)


def _unwrapped(value: JsonValue) -> JsonValue:
    """Give what a tool gave where its server put it into an object, since it had to be one."""
    return value["result"] if isinstance(value, dict) and [*value] == ["result"] else value
