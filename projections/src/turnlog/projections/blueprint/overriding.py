"""Prompt overrides: prompt files by category that a profile may replace by its own.

The default file of a category is found along the prompt search path; the file of a profile is in
`overrides/<profile>`, and both may have subfolders by provider. All of them are pinned at the first
call, so that a session that switches its profile later still uses the files of its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from turnlog.events.prompt import PromptFile
from turnlog.projections.blueprint.layer import FileLayer, Override, OverrideLayer
from turnlog.projections.blueprint.profile import Profile
from turnlog.projections.blueprint.schema import Blueprint

OVERRIDES: Final = "overrides"
"""The folder beside a blueprint that contains one folder for each profile."""
PROVIDER_FOLDER: Final = "{provider}"
_PROGRAMS: Final = {
    "workflow_classification": "tools",
    "error_recovery": "tools",
    "conversation_execution": "chat",
    "genie_coordination": "coordinator",
    "rag_focused_execution": "knowledge",
}
"""Categories that only profiles of one program have."""


def has(profile: Profile, category: str) -> bool:
    """Return whether a profile has a category."""
    return _PROGRAMS.get(category, profile.program) == profile.program


def program_of(category: str) -> str:
    """Return the only program whose profiles have the category.

    Raises `KeyError` for a category that all profiles have.
    """
    return _PROGRAMS[category]


def prompt_layers(blueprint: Blueprint) -> dict[str, FileLayer]:
    """Return every prompt file that a session needs, by the name under which it is pinned."""
    found: dict[str, FileLayer] = {}
    for name, layer in blueprint.layers.items():
        if isinstance(layer, FileLayer):
            found[name] = layer
        elif isinstance(layer, OverrideLayer):
            found |= _of_category(blueprint, name, layer)
    return found


def _of_category(blueprint: Blueprint, name: str, layer: OverrideLayer) -> dict[str, FileLayer]:
    said = layer.override
    folders = _folders(blueprint.prompts.search, said)
    theirs = {
        pin(name, profile): _file(said, _folders((f"{OVERRIDES}/{profile}",), said))
        for profile, each in blueprint.profiles.items()
        if has(each, said.category)
    }
    return {name: _file(said, folders).model_copy(update={"keep": layer.keep}), **theirs}


def _file(said: Override, folders: tuple[str, ...]) -> FileLayer:
    return FileLayer(file=f"{said.category}.md", search=folders)


def _folders(chain: Iterable[str], said: Override) -> tuple[str, ...]:
    if said.by is None:
        return tuple(chain)
    pairs = ((f"{folder}/{PROVIDER_FOLDER}", folder) for folder in chain)
    return tuple(folder for pair in pairs for folder in pair)


def pin(layer: str, profile: str) -> str:
    """Return the name under which a profile's version of a layer is pinned."""
    return f"{layer}@{profile}"


def pinned_file(pinned: Mapping[str, PromptFile], layer: str, profile: str) -> PromptFile | None:
    """Return the pinned file of a layer under a profile, or None."""
    return pinned.get(pin(layer, profile)) or pinned.get(layer)
