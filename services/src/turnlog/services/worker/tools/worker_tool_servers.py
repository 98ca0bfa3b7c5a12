"""The tool servers of a worker: those that speak MCP, and the tools that need no server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from pydantic import JsonValue

from turnlog.projections.blueprint.schema.tool_specs import (
    ConfiguredServerSpec,
    EndpointServerSpec,
    FunctionServerSpec,
    LocalServerSpec,
    RemoteServerSpec,
    ServerSpec,
)
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.worker.tools.function_and_endpoint_tools import (
    call_endpoint,
    call_function,
    list_endpoint_offers,
    list_function_offers,
)
from turnlog.services.worker.tools.mcp_servers import McpToolServers
from turnlog.services.worker.tools.tool_server_types import ToolAnswer, ToolServerFailure


@dataclass(frozen=True, slots=True)
class WorkerToolServers:
    """Calls a tool as its blueprint says that it is reached; see `ToolServers`."""

    mcp: McpToolServers = field(default_factory=McpToolServers)

    async def list_offers(self, server: str, spec: ServerSpec) -> tuple[ToolOffer, ...]:
        """See `ToolServers.list_offers`."""
        match spec:
            case FunctionServerSpec():
                return await list_function_offers(server, spec)
            case EndpointServerSpec():
                return list_endpoint_offers(server, spec)
            case LocalServerSpec() | RemoteServerSpec() | ConfiguredServerSpec():
                return await self.mcp.list_offers(server, spec)
            case _ as never:
                assert_never(never)

    async def call_tool(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """See `ToolServers.call_tool`."""
        match spec:
            case FunctionServerSpec():
                return await call_function(server, tool, arguments)
            case EndpointServerSpec(endpoints=endpoints):
                return await call_endpoint(server, endpoints[tool], arguments)
            case LocalServerSpec() | RemoteServerSpec() | ConfiguredServerSpec():
                return await self.mcp.call_tool(server, spec, tool, arguments)
            case _ as never:
                assert_never(never)

    async def get_prompt(
        self, server: str, spec: ServerSpec, prompt: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """See `ToolServers.get_prompt`."""
        if isinstance(spec, FunctionServerSpec | EndpointServerSpec):
            raise ToolServerFailure("tools_failed", f"{server} has no prompts")
        return await self.mcp.get_prompt(server, spec, prompt, arguments)

    async def close(self) -> None:
        """See `ToolServers.close`."""
        await self.mcp.close()
