"""Where a blueprint's tool servers come from: itself, a folder beside it, or the operator's file.

Server files and the operator's servers are inserted where the blueprint names them, so that a
session pins its servers and a file that changes later affects new sessions only. Of the servers
that the operator configured a session pins names and options; how they are reached is not recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from turnlog.projections.blueprint.loading.validation_messages import explain_validation_error
from turnlog.projections.blueprint.loading.yaml_document import YamlDocument, load_yaml
from turnlog.projections.blueprint.schema.tool_specs import (
    ConfiguredServerSpec,
    ServerOptions,
    ServerSpec,
)
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    BlueprintFinding,
    locate_finding,
    suggest_word,
)

FolderReader = Callable[[str], Iterable[tuple[str, str]]]
"""Returns the path and the text of every file in a folder beside a blueprint."""

ConfiguredServers = Mapping[str, ServerOptions]
"""The servers of the operator's tools file by name, each with its options."""

SERVERS_PATH: Final = ("tools", "servers")

_TOOLS_FILE_FIX: Final = "give a tools file: `--tools FILE` or TURNLOG_TOOLS"

_SERVER_ADAPTER: Final[TypeAdapter[ServerSpec]] = TypeAdapter(ServerSpec)


def read_no_files(folder: str) -> tuple[tuple[str, str], ...]:
    """Return no files, for a blueprint without folders."""
    del folder
    return ()


@dataclass(frozen=True, slots=True)
class ServerSources:
    """The places beside a blueprint that its tool servers may come from."""

    read_folder: FolderReader = read_no_files
    configured: ConfiguredServers | None = None
    """The servers of the operator's tools file; None if there is no such file."""

    def insert_servers(self, written: YamlDocument, file: str) -> YamlDocument:
        """Insert servers where a blueprint names their source; faults are added to the document.

        Raises `FaultyBlueprint` if a server file is not YAML.
        """
        value = written.value if isinstance(written.value, dict) else {}
        tools = value.get("tools")
        spec = tools.get("servers") if isinstance(tools, dict) else None
        if not isinstance(tools, dict) or not isinstance(spec, dict):
            return written
        found = self._read_source(spec, str(PurePosixPath(file).parent))
        servers = dict(self._add_operator_options(found))
        located = [locate_finding(file, written.lines, each) for each in found.findings]
        changed: JsonValue = {**value, "tools": {**tools, "servers": servers}}
        faults = (*written.faults, *found.faults, *located)
        return replace(written, value=changed, faults=faults)

    def _read_source(self, spec: Mapping[str, JsonValue], name: str) -> _FoundServers:
        """Return the servers that a blueprint lists, or those of the source that it names."""
        folder = spec.get("folder")
        if not spec:
            return _FoundServers(
                {}, [BlueprintFinding(SERVERS_PATH, "there is no server", "add one")]
            )
        if not _is_source(spec):
            return _FoundServers(spec)
        if self.configured is not None and "configured" in spec:
            return _FoundServers(
                {
                    name: {"configured": name, "required": bool(each.required)}
                    for name, each in self.configured.items()
                }
            )
        if isinstance(folder, str):
            return self._read_server_files(folder, name)
        what = "no tool servers are configured"
        path = (*SERVERS_PATH, "configured")
        return _FoundServers({}, [BlueprintFinding(path, what, _TOOLS_FILE_FIX)])

    def _read_server_files(self, folder: str, name: str) -> _FoundServers:
        found = _FoundServers()
        for path, text in self.read_folder(folder):
            file = f"{name}/{path}"
            document = load_yaml(text, file)
            found.faults += (*document.faults, *_check_server(document, file))
            if PurePosixPath(path).suffix != ".yaml":
                fix = f"call it `{PurePosixPath(path).with_suffix('.yaml')}`"
                what = "only `.yaml` is read as a server"
                found.faults.append(BlueprintFault(file=file, line=1, path="", what=what, fix=fix))
            if (server := PurePosixPath(path).stem) in found.servers:
                what = f"there is a server `{server}` already"
                fix = "call one of the files otherwise"
                found.faults.append(BlueprintFault(file=file, line=1, path="", what=what, fix=fix))
            found.servers = {**found.servers, server: document.value}
        if not found.servers:
            what, fix = (
                f"there is no server in `{folder}`",
                "put a file there for each: `time.yaml`",
            )
            found.findings.append(BlueprintFinding((*SERVERS_PATH, "folder"), what, fix))
        return found

    def _add_operator_options(self, found: _FoundServers) -> Iterator[tuple[str, JsonValue]]:
        """Yield the servers, those of the tools file with the operator's options."""
        configured = self.configured or {}
        for name, server in found.servers.items():
            spec = _read_configured(server)
            if spec is None:
                yield name, server
            elif spec.configured in configured:
                limited = spec.add_options(configured[spec.configured])
                yield name, limited.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            else:
                yield name, server
                what = f"no tool server `{spec.configured}` is configured"
                fix = suggest_word(spec.configured, configured) if configured else _TOOLS_FILE_FIX
                path = (*SERVERS_PATH, name, "configured")
                found.findings.append(BlueprintFinding(path, what, fix))


@dataclass(slots=True)
class _FoundServers:
    """The servers of a blueprint as they are written, with what is wrong with their source."""

    servers: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    findings: list[BlueprintFinding] = field(default_factory=list[BlueprintFinding])
    """Faults of the blueprint itself."""
    faults: list[BlueprintFault] = field(default_factory=list[BlueprintFault])
    """Faults of server files."""


def _is_source(spec: Mapping[str, JsonValue]) -> bool:
    """Return whether a blueprint names where its servers come from, instead of listing them."""
    if spec.get("configured", "all") != "all" or not isinstance(spec.get("folder", ""), str):
        return False
    return spec.keys() <= {"configured", "folder"}


def _read_configured(server: JsonValue) -> ConfiguredServerSpec | None:
    """Return a server of the tools file; None for any other, or one that is not valid."""
    try:
        spec = _SERVER_ADAPTER.validate_json(json.dumps(server), strict=True)
    except ValidationError:
        return None
    return spec if isinstance(spec, ConfiguredServerSpec) else None


def _check_server(found: YamlDocument, file: str) -> list[BlueprintFault]:
    try:
        # Strict and from JSON, so that "8" is not a number while lists may become tuples.
        _SERVER_ADAPTER.validate_json(json.dumps(found.value), strict=True)
    except ValidationError as error:
        return [
            locate_finding(file, found.lines, each)
            for each in explain_validation_error(error, ServerSpec)
        ]
    return []
