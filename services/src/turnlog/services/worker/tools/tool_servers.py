"""The protocol of tool servers, their answers and their failures, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import JsonValue

from turnlog.events.errors import TurnlogError
from turnlog.projections.blueprint.schema.tool_specs import ServerSpec
from turnlog.projections.tools.tool_catalog import ToolOffer

ServerFailureCode = Literal["tools_unreachable", "tools_timeout", "tools_failed"]


class ToolServerFailure(TurnlogError):
    """A server could not be reached or gave no answer."""

    retry_after: float | None = None

    def __init__(self, code: ServerFailureCode, detail: str, *, retryable: bool = True) -> None:
        super().__init__(f"{code}: {detail}")
        self.code: ServerFailureCode = code
        self.detail = detail
        self.retryable = retryable


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The result of a tool."""

    text: str
    failed: bool = False
    """Whether the server reports an error."""
    unsure: bool = False
    """Whether a failed tool may have been executed all the same."""


class ToolServers(Protocol):
    """Tool servers, by the name and address in a blueprint."""

    async def list_offers(self, server: str, spec: ServerSpec) -> tuple[ToolOffer, ...]:
        """Return what a server offers; raises `ToolServerFailure`."""
        ...

    async def call_tool(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """Run a tool once; raises `ToolServerFailure`.

        After a failure other than `tools_unreachable` the tool may have been executed or not.
        """
        ...

    async def get_prompt(
        self, server: str, spec: ServerSpec, prompt: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """Return the text of a server's prompt; raises `ToolServerFailure`."""
        ...

    async def close(self) -> None:
        """Close the connections to all servers."""
        ...
