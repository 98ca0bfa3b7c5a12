"""How tool servers are reached: a program with its variables, or an address with its headers.

A blueprint says it, or else the operator's tools file. Secrets come from the environment of this
process only, and are in no record.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, assert_never

from turnlog.projections.blueprint.schema.tool_specs import (
    ConfiguredServerSpec,
    EndpointServerSpec,
    FunctionServerSpec,
    LocalServerSpec,
    RemoteServerSpec,
    ServerSpec,
)
from turnlog.projections.blueprint.validation.blueprint_faults import BlueprintFault
from turnlog.services.extensions.mcp_servers_file import (
    AddressEntry,
    FaultyToolsFile,
    ProgramEntry,
    ToolsFile,
    ToolsFileEntry,
    expand_variables,
    list_unset_variables,
)
from turnlog.services.extensions.mcp_servers_file_references import INPUT_PREFIX
from turnlog.services.worker.tools.child_process import find_program
from turnlog.services.worker.tools.header_values import find_value_fault, read_header_values
from turnlog.services.worker.tools.tool_server_types import ToolServerFailure

Values = tuple[tuple[str, str], ...]
"""Names with their values."""

_ADDRESS_PATTERN: Final = re.compile(r"https?://\S+")

_PROGRAM_FIX: Final = "install it, or write its path"


@dataclass(frozen=True, slots=True)
class ServerProgram:
    """A program to start."""

    command: tuple[str, ...]
    environment: Values = field(default=(), repr=False)
    """The variables that it gets beside `PATH` and its like."""
    folder: str | None = None
    """The folder that it is started in; None for that of the worker."""
    secrets: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """What is masked where its own words are recorded."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """An address over streamable HTTP, or over HTTP with server-sent events."""

    url: str = field(repr=False)
    headers: Values = field(default=(), repr=False)
    transport: Literal["http", "sse"] = "http"


ServerEndpoint = ServerProgram | ServerAddress


def resolve_endpoint(
    server: str, spec: ServerSpec, tools: ToolsFile | None, environ: Mapping[str, str]
) -> ServerEndpoint:
    """Return how a server of MCP is reached; raise `ToolServerFailure` if it is none."""
    match spec:
        case LocalServerSpec(command=command, env_from=names):
            passed = tuple((name, environ[name]) for name in names if name in environ)
            return ServerProgram(command, passed, secrets=tuple(value for _, value in passed))
        case RemoteServerSpec(url=url, headers_from=named):
            headers = read_header_values(server, named, environ)
            return ServerAddress(url, tuple(headers.items()))
        case ConfiguredServerSpec(configured=name):
            entry = tools.servers.get(name) if tools else None
            if entry is None:
                detail = f"{server}: the worker's tools file has no server `{name}`"
                raise ToolServerFailure("tools_unreachable", detail, retryable=False)
            return _resolve_entry(entry, _find_file_folder(tools), environ)
        case FunctionServerSpec() | EndpointServerSpec():
            raise ToolServerFailure("tools_failed", f"{server} speaks no MCP", retryable=False)
        case _ as never:
            assert_never(never)


def _find_file_folder(tools: ToolsFile | None) -> Path:
    """Return the folder at which relative folders of the file begin."""
    return Path(tools.file).absolute().parent if tools else Path.cwd()


def _resolve_entry(
    entry: ToolsFileEntry, file_folder: Path, environ: Mapping[str, str]
) -> ServerEndpoint:
    match entry:
        case ProgramEntry(command=command, args=args, env=env, cwd=cwd):
            parts = tuple(expand_variables(part, environ) for part in (command, *args))
            written = Path(expand_variables(cwd, environ)).expanduser() if cwd else None
            folder = file_folder / written if written else None
            variables = _expand_values(env, environ)
            texts = (value for _, value in variables)
            return ServerProgram(
                command=(_find_command(parts[0], folder), *parts[1:]),
                environment=variables,
                folder=str(folder) if folder else None,
                secrets=(*texts, *_list_secret_arguments(parts[1:], folder or Path.cwd())),
            )
        case AddressEntry(url=url, headers=headers, type=transport):
            address = expand_variables(url, environ)
            return ServerAddress(address, _expand_values(headers, environ), transport)
        case _ as never:
            assert_never(never)


def _find_command(command: str, folder: Path | None) -> str:
    """Return a program; the path of one begins at the folder that it is started in."""
    is_path = os.sep in command
    return str(folder / command) if folder and is_path else command


def _list_secret_arguments(arguments: Iterable[str], folder: Path) -> Iterator[str]:
    """Yield the arguments that may be secrets: those that are no option and no file."""
    for argument in arguments:
        value = argument.partition("=")[2] if argument.startswith("-") else argument
        if value and not (folder / value).exists():
            yield value


def _expand_values(values: Mapping[str, str], environ: Mapping[str, str]) -> Values:
    return tuple((name, expand_variables(text, environ)) for name, text in values.items())


def check_endpoints(tools: ToolsFile, environ: Mapping[str, str]) -> None:
    """Raise `FaultyToolsFile` with everything that this machine lacks for the tools file."""
    if faults := tuple(find_endpoint_faults(tools, environ)):
        raise FaultyToolsFile(faults)


def find_endpoint_faults(tools: ToolsFile, environ: Mapping[str, str]) -> Iterator[BlueprintFault]:
    """Yield what this machine lacks for the tools file: variables that are not set, programs."""
    folder = _find_file_folder(tools)
    for name, entry in tools.servers.items():
        unset = [
            ((name, *path), variable)
            for path, text in entry.iterate_values()
            for variable in list_unset_variables(text, environ)
        ]
        for path, variable in unset:
            yield tools.build_fault(path, *_describe_unset_variable(variable))
        if not unset and (fault := _find_endpoint_fault(_resolve_entry(entry, folder, environ))):
            word, what, fix = fault
            yield tools.build_fault((name, word), what, fix)


def _describe_unset_variable(variable: str) -> tuple[str, str]:
    """Return what is wrong with a variable that is not set, and the fix."""
    what = f"the variable {variable} is not set"
    if variable.startswith(INPUT_PREFIX):
        return what, "set it for the worker: it answers the input, as a person does in an editor"
    return what, f"set it for the worker, or write `${{{variable}:-default}}`"


def _find_endpoint_fault(endpoint: ServerEndpoint) -> tuple[str, str, str] | None:
    """Return the field, the fault and the fix of an endpoint that cannot be reached from here."""
    match endpoint:
        case ServerProgram(command=command, folder=folder):
            if folder and not Path(folder).is_dir():
                return "cwd", f"there is no folder `{folder}`", "make it, or write its path"
            if find_program(command[0]) is None:
                return "command", f"there is no program `{command[0]}`", _PROGRAM_FIX
        case ServerAddress(url=url, headers=headers):
            if not _ADDRESS_PATTERN.fullmatch(url):
                return "url", "it is no address", "write `https://host/path`"
            for name, value in headers:
                if value and (fault := find_value_fault(value)):
                    return "headers", f"the value of `{name}` {fault}", "correct its variable"
        case _ as never:
            assert_never(never)
    return None
