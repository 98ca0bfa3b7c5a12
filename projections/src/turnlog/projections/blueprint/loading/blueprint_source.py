"""Loads a blueprint from YAML: the blueprint itself, or all faults of its file.

Everything that can be checked without the other files is checked here: the YAML, the fields, and
that every name one part uses is defined by another. Tool servers may have files of their own in a
folder. They are inserted where the folder is named, so that a session pins the servers themselves
and a file that changes later affects new sessions only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from turnlog.projections.blueprint.loading.validation_messages import explain_validation_error
from turnlog.projections.blueprint.loading.yaml_document import YamlDocument, load_yaml
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.tool_specs import ServerSpec
from turnlog.projections.blueprint.validation.blueprint_checks import check_blueprint
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFault,
    BlueprintFinding,
    FaultyBlueprint,
    LineNumbers,
    locate_finding,
)

FolderReader = Callable[[str], Iterable[tuple[str, str]]]
"""Returns the path and the text of every file in a folder beside a blueprint."""

SERVERS_FOLDER_PATH: Final = ("tools", "servers", "folder")

_SERVER_ADAPTER: Final[TypeAdapter[ServerSpec]] = TypeAdapter(ServerSpec)


def insert_server_files(
    written: YamlDocument, file: str, read_folder: FolderReader
) -> YamlDocument:
    """Insert the server files of a folder; raise `FaultyBlueprint` if one is not YAML."""
    value = written.value if isinstance(written.value, dict) else {}
    tools = value.get("tools")
    spec = tools.get("servers") if isinstance(tools, dict) else None
    if spec == {}:
        bare = locate_finding(
            file,
            written.lines,
            BlueprintFinding(SERVERS_FOLDER_PATH[:2], "there is no server", "add one"),
        )
        return replace(written, faults=(*written.faults, bare))
    folder = spec.get("folder") if isinstance(spec, dict) and len(spec) == 1 else None
    if not isinstance(tools, dict) or not isinstance(folder, str):
        return written
    servers, faults = _read_server_files(folder, str(PurePosixPath(file).parent), read_folder)
    if not servers:
        what, fix = f"there is no server in `{folder}`", "put a file there for each: `time.yaml`"
        faults = [
            *faults,
            locate_finding(file, written.lines, BlueprintFinding(SERVERS_FOLDER_PATH, what, fix)),
        ]
    changed: JsonValue = {**value, "tools": {**tools, "servers": servers}}
    return replace(written, value=changed, faults=(*written.faults, *faults))


def _read_server_files(
    folder: str, name: str, read_folder: FolderReader
) -> tuple[dict[str, JsonValue], list[BlueprintFault]]:
    servers: dict[str, JsonValue] = {}
    faults: list[BlueprintFault] = []
    for path, text in read_folder(folder):
        found = load_yaml(text, f"{name}/{path}")
        faults += (*found.faults, *_check_server(found, f"{name}/{path}"))
        if PurePosixPath(path).suffix != ".yaml":
            fix = f"call it `{PurePosixPath(path).with_suffix('.yaml')}`"
            faults.append(
                BlueprintFault(f"{name}/{path}", 1, "", "only `.yaml` is read as a server", fix)
            )
        if (server := PurePosixPath(path).stem) in servers:
            what = f"there is a server `{server}` already"
            faults.append(
                BlueprintFault(f"{name}/{path}", 1, "", what, "call one of the files otherwise")
            )
        servers[server] = found.value
    return servers, faults


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


BLUEPRINT_FILE: Final = "blueprint.yaml"


@dataclass(frozen=True, slots=True)
class BlueprintSource:
    """A blueprint with the lines of its file, for further checks."""

    blueprint: Blueprint
    file: str
    lines: LineNumbers

    def build_fault(self, finding: BlueprintFinding) -> BlueprintFault:
        """Add the line of a finding."""
        return locate_finding(self.file, self.lines, finding)


def read_no_files(folder: str) -> tuple[tuple[str, str], ...]:
    """Return no files, for a blueprint without folders."""
    del folder
    return ()


def load_blueprint_source(
    text: str, file: str = BLUEPRINT_FILE, read_folder: FolderReader = read_no_files
) -> BlueprintSource:
    """Load a blueprint; raise `FaultyBlueprint` with all faults."""
    written = insert_server_files(load_yaml(text, file), file, read_folder)
    if any(fault.file != file for fault in written.faults):
        raise FaultyBlueprint(written.faults)
    try:
        # Strict and from JSON, so that "8000" is not a number while lists may become tuples.
        blueprint = Blueprint.model_validate_json(json.dumps(written.value), strict=True)
    except ValidationError as error:
        found = [
            locate_finding(file, written.lines, finding)
            for finding in explain_validation_error(error)
        ]
        raise FaultyBlueprint([*written.faults, *found]) from None
    source = BlueprintSource(blueprint, file, written.lines)
    crossed = [source.build_fault(finding) for finding in check_blueprint(blueprint)]
    if faults := [*written.faults, *crossed]:
        raise FaultyBlueprint(faults)
    return source
