from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from turnlog.projections.blueprint.storable import mended
from turnlog.projections.blueprint.tools import ServerSpec
from turnlog.projections.tools.offers import Offer
from turnlog.projections.window.request import canonical
from turnlog.services.worker.tools.exchange import Answered, ServerFailure
from turnlog.services.worker.tools.links import Links, transports

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, Prompt

MOST_PAGES: Final = 50
"""Maximum number of pages of a server's list; some lists never end."""
FRESH: Final = 60.0
"""Seconds for which a server's offers are cached."""
MOST_LISTS: Final = 256
"""Maximum number of cached lists; those of unused blueprints are dropped."""


@dataclass
class McpServers:
    """The MCP servers of a worker."""

    fresh: float = FRESH
    links: Links = field(default_factory=Links)
    _listed: dict[str, tuple[float, tuple[Offer, ...]]] = field(
        default_factory=dict[str, tuple[float, tuple[Offer, ...]]]
    )

    async def offers(self, server: str, spec: ServerSpec) -> tuple[Offer, ...]:
        """See `ToolServers.list_offers`."""
        key, clock = f"{server} {spec.model_dump_json()}", asyncio.get_running_loop().time
        since, listed = self._listed.pop(key, (float("-inf"), ()))
        if clock() - since >= self.fresh:
            since, listed = clock(), await self._asked_for(server, spec)
        self._listed[key] = (since, listed)
        while len(self._listed) > MOST_LISTS:
            del self._listed[next(iter(self._listed))]
        return listed

    async def ask(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> Answered:
        """See `ToolServers.call_tool`."""
        async with self.links.to(server, spec) as client:
            try:
                result = await client.call_tool(tool, _storable(arguments))
            except Exception as error:  # noqa: BLE001 - whatever broke, nothing came of it
                refused: Answered | None = await transports().refusal(client, error)
                if refused is None:
                    raise _failed(server, error) from None
                return refused
            return Answered(mended(_text(result)), failed=result.is_error)

    async def close(self) -> None:
        """See `ToolServers.close`."""
        await self.links.close()

    async def _asked_for(self, server: str, spec: ServerSpec) -> tuple[Offer, ...]:
        async with self.links.to(server, spec) as client:
            try:
                tools = [offer async for offer in _tools(client)]
                prompts = [offer async for offer in _prompts(client)]
            except Exception as error:  # noqa: BLE001 - whatever broke, the server cannot be asked
                raise _failed(server, error) from None
            return (*tools, *prompts)


def _storable(arguments: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Replace characters that cannot be sent: they would break the connection for all its users."""
    sent: dict[str, Any] = json.loads(mended(json.dumps(arguments, ensure_ascii=False)))
    return sent


def _failed(server: str, error: Exception) -> ServerFailure:
    """Build the failure without the error's text, which may repeat prompts."""
    return ServerFailure("tools_failed", f"{server}: {type(error).__name__}")


async def _tools(client: Client) -> AsyncGenerator[Offer]:
    cursor: str | None = None
    for _ in range(MOST_PAGES if client.server_capabilities.tools else 0):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        for tool in page.tools:
            yield Offer(tool.name, mended(tool.description or ""), dict(tool.input_schema))
        cursor = page.next_cursor
        if cursor is None:
            return


async def _prompts(client: Client) -> AsyncGenerator[Offer]:
    cursor: str | None = None
    for _ in range(MOST_PAGES if client.server_capabilities.prompts else 0):
        page = await client.list_prompts(cursor=cursor, cache_mode="bypass")
        for prompt in page.prompts:
            schema = _schema(prompt)
            yield Offer(prompt.name, mended(prompt.description or ""), schema, "prompt")
        cursor = page.next_cursor
        if cursor is None:
            return


def _schema(prompt: Prompt) -> dict[str, JsonValue]:
    """Return a prompt's arguments, which are texts, as the schema of a tool."""
    arguments = prompt.arguments or ()
    properties: dict[str, JsonValue] = {
        each.name: {"type": "string", "description": mended(each.description or "")}
        for each in arguments
    }
    required: list[JsonValue] = [each.name for each in arguments if each.required]
    return {"type": "object", "properties": properties, "required": required}


def _text(result: CallToolResult) -> str:
    """Return the structured value of a result as JSON, or else its texts."""
    if result.structured_content is not None:
        value = _unwrapped(result.structured_content)
        return value if isinstance(value, str) else canonical(value)
    blocks = ((getattr(block, "text", None), block.type) for block in result.content)
    return "\n".join(text if isinstance(text, str) else f"({kind})" for text, kind in blocks)


def _unwrapped(value: JsonValue) -> JsonValue:
    """Return a value that its server wrapped into an object, since results must be objects."""
    return value["result"] if isinstance(value, dict) and [*value] == ["result"] else value
