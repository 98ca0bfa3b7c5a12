from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from turnlog.projections.blueprint.storable import replace_unstorable
from turnlog.projections.blueprint.tools import ServerSpec
from turnlog.projections.tools.offers import ToolOffer
from turnlog.projections.window.request import encode_canonical
from turnlog.services.worker.tools.exchange import ToolAnswer, ToolServerFailure
from turnlog.services.worker.tools.links import ServerConnectionPool, load_transports

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, Prompt

MAX_PAGES: Final = 50
"""Maximum number of pages of a server's list; some lists never end."""
OFFER_CACHE_SECONDS: Final = 60.0
"""Seconds for which a server's offers are cached."""
MAX_CACHED_LISTS: Final = 256
"""Maximum number of cached lists; those of unused blueprints are dropped."""


@dataclass
class McpToolServers:
    """The MCP servers of a worker."""

    cache_seconds: float = OFFER_CACHE_SECONDS
    connections: ServerConnectionPool = field(default_factory=ServerConnectionPool)
    _cached_offers: dict[str, tuple[float, tuple[ToolOffer, ...]]] = field(
        default_factory=dict[str, tuple[float, tuple[ToolOffer, ...]]]
    )

    async def list_offers(self, server: str, spec: ServerSpec) -> tuple[ToolOffer, ...]:
        """See `ToolServers.list_offers`."""
        key, clock = f"{server} {spec.model_dump_json()}", asyncio.get_running_loop().time
        since, listed = self._cached_offers.pop(key, (float("-inf"), ()))
        if clock() - since >= self.cache_seconds:
            since, listed = clock(), await self._fetch_server_offers(server, spec)
        self._cached_offers[key] = (since, listed)
        while len(self._cached_offers) > MAX_CACHED_LISTS:
            del self._cached_offers[next(iter(self._cached_offers))]
        return listed

    async def call_tool(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """See `ToolServers.call_tool`."""
        async with self.connections.open_client(server, spec) as client:
            try:
                result = await client.call_tool(tool, _clean_arguments(arguments))
            except Exception as error:  # noqa: BLE001 - whatever broke, nothing came of it
                refused: ToolAnswer | None = await load_transports().refusal(client, error)
                if refused is None:
                    raise _build_failure(server, error) from None
                return refused
            return ToolAnswer(replace_unstorable(_format_result(result)), failed=result.is_error)

    async def close(self) -> None:
        """See `ToolServers.close`."""
        await self.connections.close()

    async def _fetch_server_offers(self, server: str, spec: ServerSpec) -> tuple[ToolOffer, ...]:
        async with self.connections.open_client(server, spec) as client:
            try:
                tools = [offer async for offer in _iterate_tools(client)]
                prompts = [offer async for offer in _iterate_prompts(client)]
            except Exception as error:  # noqa: BLE001 - whatever broke, the server cannot be asked
                raise _build_failure(server, error) from None
            return (*tools, *prompts)


def _clean_arguments(arguments: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Replace characters that cannot be sent: they would break the connection for all its users."""
    sent: dict[str, Any] = json.loads(replace_unstorable(json.dumps(arguments, ensure_ascii=False)))
    return sent


def _build_failure(server: str, error: Exception) -> ToolServerFailure:
    """Build the failure without the error's text, which may repeat prompts."""
    return ToolServerFailure("tools_failed", f"{server}: {type(error).__name__}")


async def _iterate_tools(client: Client) -> AsyncGenerator[ToolOffer]:
    cursor: str | None = None
    for _ in range(MAX_PAGES if client.server_capabilities.tools else 0):
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        for tool in page.tools:
            yield ToolOffer(tool.name, replace_unstorable(tool.description or ""), dict(tool.input_schema))
        cursor = page.next_cursor
        if cursor is None:
            return


async def _iterate_prompts(client: Client) -> AsyncGenerator[ToolOffer]:
    cursor: str | None = None
    for _ in range(MAX_PAGES if client.server_capabilities.prompts else 0):
        page = await client.list_prompts(cursor=cursor, cache_mode="bypass")
        for prompt in page.prompts:
            schema = _build_prompt_schema(prompt)
            yield ToolOffer(prompt.name, replace_unstorable(prompt.description or ""), schema, "prompt")
        cursor = page.next_cursor
        if cursor is None:
            return


def _build_prompt_schema(prompt: Prompt) -> dict[str, JsonValue]:
    """Return a prompt's arguments, which are texts, as the schema of a tool."""
    arguments = prompt.arguments or ()
    properties: dict[str, JsonValue] = {
        each.name: {"type": "string", "description": replace_unstorable(each.description or "")}
        for each in arguments
    }
    required: list[JsonValue] = [each.name for each in arguments if each.required]
    return {"type": "object", "properties": properties, "required": required}


def _format_result(result: CallToolResult) -> str:
    """Return the structured value of a result as JSON, or else its texts."""
    if result.structured_content is not None:
        value = _unwrap_value(result.structured_content)
        return value if isinstance(value, str) else encode_canonical(value)
    blocks = ((getattr(block, "text", None), block.type) for block in result.content)
    return "\n".join(text if isinstance(text, str) else f"({kind})" for text, kind in blocks)


def _unwrap_value(value: JsonValue) -> JsonValue:
    """Return a value that its server wrapped into an object, since results must be objects."""
    return value["result"] if isinstance(value, dict) and [*value] == ["result"] else value
