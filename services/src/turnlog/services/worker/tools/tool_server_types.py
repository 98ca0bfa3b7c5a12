"""The protocol of tool servers, their answers and their failures, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, Literal, Protocol

from pydantic import JsonValue

from turnlog.events.errors import TurnlogError
from turnlog.projections.blueprint.schema.tool_specs import ServerSpec
from turnlog.projections.blueprint.storable_json import cut_text
from turnlog.projections.tools.tool_catalog import ToolOffer
from turnlog.services.media.incoming_media import IncomingMedia

ServerFailureCode = Literal[
    "tools_not_started", "tools_unreachable", "tools_timeout", "tools_failed", "tools_unknown"
]
"""`tools_not_started` does not pass by itself: a program is missing, or ends before it answers.
`tools_unknown`: a server lacks a tool that the blueprint names."""

_MAX_REASON_CHARACTERS: Final = 300

_CODES_BEFORE_REQUEST: Final = frozenset[ServerFailureCode](
    {"tools_not_started", "tools_unreachable"}
)


class ToolServerFailure(TurnlogError):
    """A server could not be reached or gave no answer."""

    retry_after: float | None = None

    def __init__(
        self,
        code: ServerFailureCode,
        reason: str,
        *,
        retryable: bool = True,
        lines: Sequence[str] = (),
    ) -> None:
        self.code: ServerFailureCode = code
        self.reason = reason
        """What models and people are told."""
        self.detail = format_detail(reason, lines)
        """What people are told: the reason, and the last lines that the server wrote."""
        self.retryable = retryable
        self.server_lines = tuple(lines)
        """The last lines for the operator, which may be about other requests too."""
        super().__init__(f"{code}: {self.detail}")

    @property
    def was_requested(self) -> bool:
        """Whether the server may have got the request."""
        return self.code not in _CODES_BEFORE_REQUEST


def format_detail(reason: str, lines: Sequence[str]) -> str:
    """Return a reason with the last lines of a server below it."""
    return "\n".join([f"{reason}; its last lines are:", *lines]) if lines else reason


def attach_lines(cancelled: BaseException, lines: Sequence[str]) -> None:
    """Attach a server's last lines to the error that ends a request."""
    for line in lines:
        cancelled.add_note(line)


def list_attached_lines(late: TimeoutError) -> tuple[str, ...]:
    """Return the lines that were attached to the cancellation behind a timeout."""
    return tuple(getattr(late.__cause__, "__notes__", ()))


def shorten_reason(text: str) -> str:
    """Return the beginning of an error's text on one line."""
    return cut_text(" ".join(text.split()), _MAX_REASON_CHARACTERS)


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The result of a tool."""

    text: str
    _: KW_ONLY
    failed: bool = False
    """Whether the server reports an error."""
    unsure: bool = False
    """Whether a failed tool may have been executed all the same."""
    detail: str = ""
    """Why it failed, for people; prompts never include it."""
    media: tuple[IncomingMedia, ...] = ()
    """Its pictures, recordings and files; the text has a line for each."""

    @property
    def size(self) -> int:
        """About how much memory it takes."""
        return len(self.text) + sum(len(each.data) for each in self.media)


class ToolServers(Protocol):
    """Tool servers, by the name and address in a blueprint."""

    async def list_offers(self, server: str, spec: ServerSpec) -> tuple[ToolOffer, ...]:
        """Return what a server offers; raises `ToolServerFailure`."""
        ...

    async def call_tool(
        self, server: str, spec: ServerSpec, tool: str, arguments: Mapping[str, JsonValue]
    ) -> ToolAnswer:
        """Run a tool once; raises `ToolServerFailure`.

        After a failure that says `was_requested` the tool may have been executed or not.
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
