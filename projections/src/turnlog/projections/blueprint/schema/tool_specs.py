"""Tool specs: the tool servers of a blueprint, and how much of a tool result prompts include.

The worker connects to the servers, or is one itself: for Python functions that packages register,
and for endpoints that take arguments and return a result over plain HTTP. A blueprint contains no
secrets: it names environment variables of the worker, whose values the worker passes on, or servers
of the operator's tools file, which the worker reads.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, JsonValue, Tag

from turnlog.events.event_model import build_discriminator
from turnlog.events.model.content_parts import MAX_MEDIA_BYTES
from turnlog.projections.blueprint.schema.strict_model import (
    EnvironmentVariable,
    HeaderName,
    HttpAddress,
    Name,
    StrictModel,
)

ToolNames = tuple[Annotated[str, Field(min_length=1)], ...]


ALL_TOOLS: Final = "all"
"""The word for all tools of a server."""

MAX_SYSTEM_NAME_CHARACTERS: Final = 128

CallSeconds = Annotated[float, Field(gt=0, le=3_600)]


class ServerOptions(StrictModel):
    """What a server is called in prompts, which of its tools are offered, and how they are run."""

    system_name: (
        Annotated[str, Field(min_length=1, max_length=MAX_SYSTEM_NAME_CHARACTERS)] | None
    ) = None
    """What prompts call the system behind the server, above its tools and prompts; once any server
    has one, the others are headed by their names in the blueprint.
    """
    only: ToolNames | None = None
    """The tools that are offered; all if it is not given."""
    except_: Annotated[ToolNames, Field(alias="except")] = ()
    """Tools and prompts that are not offered."""
    idempotent: ToolNames = ()
    """Tools that may be run again if it is unknown whether they ran."""
    approve: ToolNames = ()
    """Tools that run only after a person approved the call; `all` for all tools of the server."""
    auto_approve: ToolNames = ()
    """Tools that need no approval although `approve` says `all`."""
    seconds: CallSeconds | None = None
    """Timeout of one call of the server's tools in seconds; that of all servers if not given."""

    required: bool | None = None
    """Whether turns fail while the server cannot be asked; otherwise its tools are left out. By
    default a server is required, unless `configured: all` brings it in.
    """

    @property
    def is_required(self) -> bool:
        """Whether turns fail while the server cannot be asked."""
        return self.required is not False

    def needs_approval(self, tool: str) -> bool:
        """Return whether a person must approve each call of a tool."""
        is_covered = ALL_TOOLS in self.approve and tool not in self.auto_approve
        return tool in self.approve or is_covered


class LocalServerSpec(ServerOptions):
    """A program that the worker starts and talks to over standard input and output."""

    command: Annotated[ToolNames, Field(min_length=1)]
    """The program and its arguments."""
    env_from: tuple[EnvironmentVariable, ...] = ()
    """Environment variables of the worker that the program gets."""


class RemoteServerSpec(ServerOptions):
    """A server that is reached over streamable HTTP."""

    url: HttpAddress
    """Its address, without a user, a query or a fragment."""
    headers_from: dict[HeaderName, EnvironmentVariable] = {}
    """Maps a header to the environment variable of the worker that contains its value."""


class ConfiguredServerSpec(ServerOptions):
    """A server of the operator's tools file, which alone says how it is reached."""

    configured: Name
    """Its name in the file."""

    def add_options(self, operator: ServerOptions) -> ConfiguredServerSpec:
        """Return the server with the operator's options, and no tool that those do not offer.

        What a blueprint lets a person approve, the operator's file does not approve.
        """
        only = operator.only if self.only is None else self.only
        if operator.only is not None and only is not None:
            only = tuple(tool for tool in only if tool in operator.only)
        return ConfiguredServerSpec.model_validate(
            {
                "configured": self.configured,
                "system_name": self.system_name or operator.system_name,
                "only": only,
                "except": tuple(dict.fromkeys((*self.except_, *operator.except_))),
                "idempotent": tuple(dict.fromkeys((*self.idempotent, *operator.idempotent))),
                "approve": tuple(dict.fromkeys((*self.approve, *operator.approve))),
                "auto_approve": self.auto_approve
                if ALL_TOOLS in self.approve
                else tuple(dict.fromkeys((*self.auto_approve, *operator.auto_approve))),
                "seconds": self.seconds or operator.seconds,
                "required": operator.required if self.required is None else self.required,
            }
        )


class FunctionServerSpec(ServerOptions):
    """Python functions that packages register under `turnlog.tools`; they run in the worker."""

    functions: Annotated[ToolNames, Field(min_length=1)]
    """The names under which the functions are registered."""


class EndpointSpec(StrictModel):
    """A tool that is called over HTTP: its arguments are posted as JSON, the body is its result."""

    url: HttpAddress
    """Its address, without a user, a query or a fragment."""
    description: Annotated[str, Field(min_length=1)]
    """What models are told of it."""
    parameters: dict[str, JsonValue] = {"type": "object", "properties": {}}
    """JSON Schema of its arguments."""
    headers_from: dict[HeaderName, EnvironmentVariable] = {}
    """Maps a header to the environment variable of the worker that contains its value."""
    read_only: bool = False
    """Whether it only reads, so that it may be called again."""
    idempotent: bool = False
    """Whether a repeated call changes nothing more, so that it may be called again."""


class EndpointServerSpec(ServerOptions):
    """Tools that are called over HTTP, without MCP."""

    endpoints: Annotated[dict[Name, EndpointSpec], Field(min_length=1)]
    """The tools by name."""


ServerSpec = Annotated[
    Annotated[LocalServerSpec, Tag("(command)")]
    | Annotated[RemoteServerSpec, Tag("(url)")]
    | Annotated[ConfiguredServerSpec, Tag("(configured)")]
    | Annotated[FunctionServerSpec, Tag("(functions)")]
    | Annotated[EndpointServerSpec, Tag("(endpoints)")],
    Discriminator(
        build_discriminator("command", "url", "configured", "functions", "endpoints"),
        custom_error_type="server_kind",
        custom_error_message=(
            "a server needs one of: `command`, `url`, `configured`, `functions`, `endpoints`"
        ),
    ),
]


def _add_source_forms(schema: dict[str, Any]) -> None:
    """Let an author name the operator's servers, or a folder, instead of listing servers."""
    words: dict[str, Any] = {"configured": {"const": "all"}, "folder": {"type": "string"}}
    sources = {"type": "object", "properties": words, "additionalProperties": False}
    written = dict(schema)
    schema.clear()
    schema["anyOf"] = [{**sources, "required": [word]} for word in words] + [written]


MAX_RESULT_BYTES: Final = MAX_MEDIA_BYTES
"""The most that a blueprint may allow for a result, as for media."""


class CondensationSpec(StrictModel):
    """How much of a long tool result prompts include."""

    rows: Annotated[int, Field(ge=1)] = 500
    """A list with more rows is replaced by its columns, its length and a sample."""
    chars: Annotated[int, Field(ge=100)] = 10_000
    """A result with more characters is condensed as well, as far as possible."""
    sample: Annotated[int, Field(ge=0, le=20)] = 3
    """Number of rows in a sample."""


class ToolsSpec(StrictModel):
    """The tools of a blueprint."""

    servers: Annotated[dict[Name, ServerSpec], Field(json_schema_extra=_add_source_forms)]
    """The tool servers; or `configured: all`, those of the operator's tools file; or `folder`, with
    one file for each server. If both are given, the folder is read where there is no tools file.
    """
    changed_lists: Literal["keep", "pin"] = "keep"
    """Whether a running session keeps the tools that it is pinned to although its servers offer
    others by now, or is pinned to those before its next turn.
    """
    seconds: CallSeconds = 30.0
    """Timeout of one tool call in seconds."""
    approval_seconds: Annotated[float, Field(gt=0, le=2_592_000)] = 3_600.0
    """How long a person has to approve a tool call; after that it is refused."""
    most_bytes: Annotated[int, Field(ge=1_000, le=MAX_RESULT_BYTES)] = 8_000_000
    """Maximum size of a result in bytes; a larger result counts as failed."""
    most_calls: Annotated[int, Field(ge=1, le=64)] = 16
    """Maximum number of tool calls in one answer."""
    most_steps: Annotated[int, Field(ge=1, le=16)] = 8
    """Maximum number of steps in a plan."""
    distil: CondensationSpec = CondensationSpec()
    """How long results are condensed."""

    def get_call_seconds(self, server: str) -> float:
        """Return the timeout of one call of a server's tools in seconds."""
        return self.servers[server].seconds or self.seconds
