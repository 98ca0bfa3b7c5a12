"""What servers of tools are asked, what they give, and how they fail: plain values and one port."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import JsonValue

from turnlog.events.errors import TurnlogError
from turnlog.projections.blueprint.tools import ServerSpec
from turnlog.projections.tools.offers import Offer

Code = Literal["tools_unreachable", "tools_timeout", "tools_failed"]


class ServerFailure(TurnlogError):
    """A server could not be asked, or gave no answer."""

    retry_after: float | None = None

    def __init__(self, code: Code, detail: str, *, retryable: bool = True) -> None:
        super().__init__(f"{code}: {detail}")
        self.code: Code = code
        self.detail = detail
        self.retryable = retryable


@dataclass(frozen=True, slots=True)
class Answered:
    """What a tool gave."""

    text: str
    failed: bool = False
    """Whether the server calls it an error."""
    unsure: bool = False
    """Whether what failed may have been done all the same."""


class ToolServers(Protocol):
    """Servers of tools, by the name and the address that a blueprint gives them."""

    async def offers(self, server: str, spec: ServerSpec) -> tuple[Offer, ...]:
        """Say what a server offers; raises `ServerFailure`."""
        ...

    async def ask(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> Answered:
        """Run a tool once; raises `ServerFailure`.

        After one that is not `tools_unreachable` it may have been run or not.
        """
        ...

    async def close(self) -> None:
        """Take leave of all servers."""
        ...
