"""The tools file: the tool servers of an installation, in the form `mcpServers`.

Many programs that use MCP read this form, so one file may serve them all; it may be JSON or YAML.
Which program a worker starts, and with which secrets, is decided here and nowhere else: a blueprint
names the servers, a session pins their names and options, and the worker looks up how they are
reached. The file is read when a process starts.

A value may contain `${NAME}` or `${NAME:-default}`, a variable of the worker's environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, ValidationError

from turnlog.events.errors import Refused
from turnlog.events.event_model import build_discriminator
from turnlog.projections.blueprint.loading.server_sources import ConfiguredServers
from turnlog.projections.blueprint.loading.validation_messages import explain_validation_error
from turnlog.projections.blueprint.loading.yaml_document import load_yaml
from turnlog.projections.blueprint.schema.strict_model import (
    EnvironmentVariable,
    HeaderName,
    Name,
    StrictModel,
)
from turnlog.projections.blueprint.schema.tool_specs import ServerOptions
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    BlueprintFinding,
    DocumentPath,
    FaultyBlueprint,
    LineNumbers,
    locate_finding,
)

_REFERENCE: Final = re.compile(r"\$\{(?P<inside>[^}]*)\}")

_VARIABLE: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(:-(?P<default>.*))?", re.DOTALL)

_SERVERS_WORD: Final = "mcpServers"


class _ToolsFileServer(ServerOptions):
    disabled: bool = False
    """Whether the server is left out."""


class ProgramEntry(_ToolsFileServer):
    """A program that the worker starts and talks to over standard input and output."""

    type: Literal["stdio"] = "stdio"
    command: Annotated[str, Field(min_length=1)]
    args: tuple[str, ...] = ()
    env: dict[EnvironmentVariable, str] = {}
    """Variables that the program gets; it gets no other secret of the worker."""

    def iterate_values(self) -> Iterator[tuple[DocumentPath, str]]:
        """Yield the path and text of every value that may refer to a variable."""
        yield ("command",), self.command
        yield from ((("args", place), text) for place, text in enumerate(self.args))
        yield from ((("env", name), text) for name, text in self.env.items())


class AddressEntry(_ToolsFileServer):
    """A server that is reached over streamable HTTP."""

    type: Literal["http", "streamable-http", "streamableHttp"] = "http"
    url: Annotated[str, Field(min_length=1)]
    headers: dict[HeaderName, str] = {}

    def iterate_values(self) -> Iterator[tuple[DocumentPath, str]]:
        """Yield the path and text of every value that may refer to a variable."""
        yield ("url",), self.url
        yield from ((("headers", name), text) for name, text in self.headers.items())


ToolsFileEntry = Annotated[
    Annotated[ProgramEntry, Tag("(command)")] | Annotated[AddressEntry, Tag("(url)")],
    Discriminator(
        build_discriminator("command", "url"),
        custom_error_type="server_kind",
        custom_error_message="a server needs one of: `command`, `url`",
    ),
]


class _ToolsFileDocument(StrictModel):
    # The files of other programs have settings of their own beside the servers.
    model_config = ConfigDict(frozen=True, extra="ignore")

    servers: Annotated[dict[Name, ToolsFileEntry], Field(alias=_SERVERS_WORD)]


class FaultyToolsFile(Refused):
    """A tools file that cannot be used; `faults` lists everything that is wrong with it."""

    def __init__(self, faults: Iterable[BlueprintFault]) -> None:
        self.faults = tuple(faults)
        detail = "\n".join(map(str, self.faults))
        super().__init__("bad-setting", detail, field="tools", fix="correct the tools file")


@dataclass(frozen=True, slots=True)
class ToolsFile:
    """The servers of a tools file, without the disabled ones."""

    file: str
    servers: Mapping[str, ToolsFileEntry]
    """What blueprints and sessions get of them are the names and the options."""
    lines: LineNumbers

    def build_fault(self, path: DocumentPath, what: str, fix: str) -> BlueprintFault:
        """Return a fault at a path below the servers, with its line."""
        finding = BlueprintFinding((_SERVERS_WORD, *path), what, fix)
        return locate_finding(self.file, self.lines, finding)


def load_tools_file(file: Path) -> ToolsFile:
    """Read a tools file; raise `FaultyToolsFile` with all its faults, each with line and fix."""
    try:
        document = load_yaml(_read_text(file), str(file))
    except FaultyBlueprint as faulty:
        raise FaultyToolsFile(faulty.faults) from None
    try:
        # Strict and from JSON, so that 8 is not a text while lists may become tuples.
        found = _ToolsFileDocument.model_validate_json(json.dumps(document.value), strict=True)
    except ValidationError as error:
        findings = explain_validation_error(error, _ToolsFileDocument)
        located = [locate_finding(str(file), document.lines, each) for each in findings]
        raise FaultyToolsFile((*document.faults, *located)) from None
    servers = {name: each for name, each in found.servers.items() if not each.disabled}
    tools = ToolsFile(str(file), servers, document.lines)
    if faults := (*document.faults, *_find_reference_faults(tools)):
        raise FaultyToolsFile(faults)
    return tools


def load_configured_servers(file: Path | None) -> ConfiguredServers | None:
    """Return the servers that a tools file offers to blueprints; None if there is no tools file."""
    return load_tools_file(file).servers if file else None


def _read_text(file: Path) -> str:
    """Return the text as YAML, which JSON is but for tabs; within a text JSON has none."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        what, fix = error.strerror or type(error).__name__, "name a file that can be read"
        raise FaultyToolsFile(
            [BlueprintFault(file=str(file), line=1, path="", what=what, fix=fix)]
        ) from None
    except UnicodeDecodeError as error:
        what = f"byte {error.start} is not UTF-8"
        raise FaultyToolsFile(
            [BlueprintFault(file=str(file), line=1, path="", what=what, fix="save it as UTF-8")]
        ) from None
    return text.replace("\t", "  ") if text.lstrip().startswith("{") else text


def _find_reference_faults(tools: ToolsFile) -> Iterator[BlueprintFault]:
    if not tools.servers:
        yield tools.build_fault((), "there is no server", "add one that is not disabled")
    for name, server in tools.servers.items():
        for path, text in server.iterate_values():
            for reference in _REFERENCE.finditer(text):
                if not _VARIABLE.fullmatch(reference["inside"]):
                    what = f"`{reference[0]}` is no variable"
                    fix = "write `${NAME}` or `${NAME:-default}`"
                    yield tools.build_fault((name, *path), what, fix)


def expand_variables(text: str, environ: Mapping[str, str]) -> str:
    """Return a value with its variables replaced; one that is not set is empty."""

    def replace(reference: re.Match[str]) -> str:
        variable = _VARIABLE.fullmatch(reference["inside"])
        if variable is None:
            return reference[0]
        return environ.get(variable["name"]) or variable["default"] or ""

    return _REFERENCE.sub(replace, text)


def list_unset_variables(text: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables of a value that are not set and have no default."""
    inside = (_VARIABLE.fullmatch(each["inside"]) for each in _REFERENCE.finditer(text))
    return tuple(
        each["name"]
        for each in inside
        if each and each["default"] is None and not environ.get(each["name"])
    )
