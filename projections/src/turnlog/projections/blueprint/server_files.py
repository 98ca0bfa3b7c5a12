"""Loads a blueprint from YAML: the blueprint itself, or all faults of its file.

Everything that can be checked without the other files is checked here: the YAML, the fields, and
that every name one part uses is defined by another. Tool servers may have files of their own in a
folder. They are inserted where the folder is named, so that a session pins the servers themselves
and a file that changes later affects new sessions only.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from pydantic import JsonValue, TypeAdapter, ValidationError

from turnlog.projections.blueprint.document import Document, document
from turnlog.projections.blueprint.faults import Fault, Remark, located
from turnlog.projections.blueprint.tools import ServerSpec
from turnlog.projections.blueprint.wording import remarks_on

Beside = Callable[[str], Iterable[tuple[str, str]]]
"""Returns the path and the text of every file in a folder beside a blueprint."""
PLACE: Final = ("tools", "servers", "folder")
_SERVER: Final[TypeAdapter[ServerSpec]] = TypeAdapter(ServerSpec)


def with_servers(written: Document, file: str, beside: Beside) -> Document:
    """Insert the server files of a folder; raise `FaultyBlueprint` if one is not YAML."""
    value = written.value if isinstance(written.value, dict) else {}
    tools = value.get("tools")
    spec = tools.get("servers") if isinstance(tools, dict) else None
    if spec == {}:
        bare = located(file, written.lines, Remark(PLACE[:2], "there is no server", "add one"))
        return replace(written, faults=(*written.faults, bare))
    folder = spec.get("folder") if isinstance(spec, dict) and len(spec) == 1 else None
    if not isinstance(tools, dict) or not isinstance(folder, str):
        return written
    servers, faults = _read(folder, str(PurePosixPath(file).parent), beside)
    if not servers:
        what, fix = f"there is no server in `{folder}`", "put a file there for each: `time.yaml`"
        faults = [*faults, located(file, written.lines, Remark(PLACE, what, fix))]
    changed: JsonValue = {**value, "tools": {**tools, "servers": servers}}
    return replace(written, value=changed, faults=(*written.faults, *faults))


def _read(folder: str, name: str, beside: Beside) -> tuple[dict[str, JsonValue], list[Fault]]:
    servers: dict[str, JsonValue] = {}
    faults: list[Fault] = []
    for path, text in beside(folder):
        found = document(text, f"{name}/{path}")
        faults += (*found.faults, *_faults(found, f"{name}/{path}"))
        if PurePosixPath(path).suffix != ".yaml":
            fix = f"call it `{PurePosixPath(path).with_suffix('.yaml')}`"
            faults.append(Fault(f"{name}/{path}", 1, "", "only `.yaml` is read as a server", fix))
        if (server := PurePosixPath(path).stem) in servers:
            what = f"there is a server `{server}` already"
            faults.append(Fault(f"{name}/{path}", 1, "", what, "call one of the files otherwise"))
        servers[server] = found.value
    return servers, faults


def _faults(found: Document, file: str) -> list[Fault]:
    try:
        # Strict and from JSON, so that "8" is not a number while lists may become tuples.
        _SERVER.validate_json(json.dumps(found.value), strict=True)
    except ValidationError as error:
        return [located(file, found.lines, each) for each in remarks_on(error, ServerSpec)]
    return []
