"""Tools as an author writes them: which servers there are, and how much of a result is told.

A server is named here and reached by the worker. Secrets are not written down: what a server is to
be told of them is named, and taken from the environment of the worker.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from turnlog.events.forms import form_by
from turnlog.projections.blueprint.strict import Address, Header, Name, Strict, Variable

Tools = tuple[Annotated[str, Field(min_length=1)], ...]


class _Server(Strict):
    only: Tools | None = None
    """The tools that are offered; without it all are."""
    except_: Annotated[Tools, Field(alias="except")] = ()
    """Tools and prompts that are not."""
    idempotent: Tools = ()
    """Tools that may be run again when nobody knows whether they were."""


class LocalServer(_Server):
    """A program that the worker starts, and speaks to over its standard input and output."""

    command: Annotated[Tools, Field(min_length=1)]
    """The program and its arguments."""
    env_from: tuple[Variable, ...] = ()
    """Variables of the worker that it is given."""


class RemoteServer(_Server):
    """A server that is reached over streamable HTTP."""

    url: Address
    """Its address, without a user, a query or a fragment."""
    headers_from: dict[Header, Variable] = {}
    """Header to the variable of the worker that holds its value."""


ServerSpec = Annotated[
    Annotated[LocalServer, Tag("(command)")] | Annotated[RemoteServer, Tag("(url)")],
    Discriminator(
        form_by("command", "url"),
        custom_error_type="server_kind",
        custom_error_message="a server needs one of: `command`, `url`",
    ),
]


def _or_folder(schema: dict[str, Any]) -> None:
    """Let an author name a folder instead, which is read with the other files of a blueprint."""
    folder = {"type": "object", "properties": {"folder": {"type": "string"}}}
    written = dict(schema)
    schema.clear()
    schema["anyOf"] = [{**folder, "required": ["folder"], "additionalProperties": False}, written]


class Distil(Strict):
    """What of a long result is told."""

    rows: Annotated[int, Field(ge=1)] = 500
    """A list of more rows than this is told by its columns, its length and a sample."""
    chars: Annotated[int, Field(ge=100)] = 10_000
    """And so is any result that is longer than this, as far as it can be."""
    sample: Annotated[int, Field(ge=0, le=20)] = 3
    """Rows in a sample."""


class ToolsSpec(Strict):
    """The tools of a blueprint."""

    servers: Annotated[dict[Name, ServerSpec], Field(json_schema_extra=_or_folder)]
    """The servers that have them; or `folder`, where each has a file of its own."""
    seconds: Annotated[float, Field(gt=0, le=3_600)] = 30.0
    """How long one may take."""
    most_bytes: Annotated[int, Field(ge=1_000, le=8_000_000)] = 1_000_000
    """What a result may have; a longer one has failed."""
    most_calls: Annotated[int, Field(ge=1, le=64)] = 16
    """How many one answer may ask for."""
    most_steps: Annotated[int, Field(ge=1, le=16)] = 8
    """How many steps a plan may have."""
    distil: Distil = Distil()
    """What of a long result is told."""
