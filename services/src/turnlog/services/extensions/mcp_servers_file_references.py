"""References of other programs' tools files, in the words of this product.

Editors write `${env:NAME}` for a variable of the environment, `${input:id}` for what they ask the
person at the screen, and `${workspaceFolder}` for the folder that is open. Nobody sits at a worker:
an input is answered by a variable of its environment, `TURNLOG_INPUT_` and the id in capitals, or
by the default that the file has for it. So a secret stays where those of a worker are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import JsonValue

REFERENCE_PATTERN: Final = re.compile(r"\$\{(?P<inside>[^}]*)\}")

INPUT_PREFIX: Final = "TURNLOG_INPUT_"
"""How the variables begin that answer inputs."""

_EDITOR_FOLDER: Final = re.compile(r"\.[a-z]+")
"""A folder of an editor within the folder that it opens, such as `.vscode` and `.cursor`."""


@dataclass(frozen=True, slots=True)
class ReferenceValues:
    """What the references of one file stand for."""

    workspace: Path
    input_defaults: Mapping[str, str]


def find_workspace_folder(file: Path) -> Path:
    """Return the folder that an editor has open whose tools file this is."""
    folder = file.absolute().parent
    return folder.parent if _EDITOR_FOLDER.fullmatch(folder.name) else folder


def list_input_defaults(document: JsonValue) -> dict[str, str]:
    """Return the inputs of a file that have a default, by id."""
    inside = document.get("mcp", document) if isinstance(document, dict) else None
    inputs = inside.get("inputs") if isinstance(inside, dict) else None
    return {
        id: default
        for each in (inputs if isinstance(inputs, list) else ())
        if isinstance(each, dict)
        and isinstance(id := each.get("id"), str)
        and isinstance(default := each.get("default"), str)
    }


def build_input_variable(id: str) -> str:
    """Return the name of the variable that answers an input."""
    return INPUT_PREFIX + re.sub(r"[^A-Z0-9]+", "_", id.upper())


def replace_references(value: JsonValue, values: ReferenceValues) -> JsonValue:
    """Return a value with references of other programs as paths and as `${NAME}`."""
    match value:
        case str():
            return REFERENCE_PATTERN.sub(lambda found: _translate(found[0], values), value)
        case list():
            return [replace_references(each, values) for each in value]
        case dict():
            return {name: replace_references(each, values) for name, each in value.items()}
        case _:
            return value


def _translate(reference: str, values: ReferenceValues) -> str:
    match reference[2:-1].partition(":"):
        case ("env", ":", name):
            return f"${{{name}}}"
        case ("input", ":", id) if id:
            default = values.input_defaults.get(id)
            # A default with this letter cannot be written down.
            more = "" if default is None or "}" in default else f":-{default}"
            return f"${{{build_input_variable(id)}{more}}}"
        case ("workspaceFolder", _, _):
            return str(values.workspace)
        case ("workspaceFolderBasename", "", ""):
            return values.workspace.name
        case ("userHome", "", ""):
            return str(Path.home())
        case ("pathSeparator" | "/", "", ""):
            return os.sep
        case _:
            return reference
