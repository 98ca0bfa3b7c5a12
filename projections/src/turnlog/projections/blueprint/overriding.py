"""Overriding: prompt files by category, which a profile may have in words of its own.

The text of a category lies where prompt files do; one for a profile lies under `overrides`, in a
folder of its name, and either may have folders by provider. All of them are pinned at the first
call, so that a session which takes another profile later is told what was written when it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from turnlog.events.prompt import PromptFile
from turnlog.projections.blueprint.layer import FileLayer, Override, OverrideLayer
from turnlog.projections.blueprint.profile import Profile
from turnlog.projections.blueprint.schema import Blueprint

OVERRIDES: Final = "overrides"
"""The folder of a blueprint that has a folder a profile."""
PROVIDER_FOLDER: Final = "{provider}"
_PROGRAMS: Final = {
    "workflow_classification": "tools",
    "error_recovery": "tools",
    "conversation_execution": "chat",
    "genie_coordination": "coordinator",
    "rag_focused_execution": "knowledge",
}
"""Categories that only the profiles of one program have."""


def has(profile: Profile, category: str) -> bool:
    """Tell whether a profile has a category."""
    return _PROGRAMS.get(category, profile.program) == profile.program


def program_of(category: str) -> str:
    """Name the one program whose profiles have a category that not all of them have."""
    return _PROGRAMS[category]


def prompt_layers(blueprint: Blueprint) -> dict[str, FileLayer]:
    """Give every prompt file that a session looks for, by the name it is pinned under."""
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
    """Name what a profile has instead of a layer's own text."""
    return f"{layer}@{profile}"


def pinned_file(pinned: Mapping[str, PromptFile], layer: str, profile: str) -> PromptFile | None:
    """Give the file that a layer stands for under a profile; none where there is none."""
    return pinned.get(pin(layer, profile)) or pinned.get(layer)
