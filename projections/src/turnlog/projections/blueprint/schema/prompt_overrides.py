"""Prompt overrides: prompt files by category that a profile may replace by its own.

The default file of a category is found along the prompt search path; the file of a profile is in
`overrides/<profile>`, and both may have subfolders by provider. All of them are pinned at the first
call, so that a session that switches its profile later still uses the files of its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from turnlog.events.model.prompt_events import PromptFile
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.call_specs import ProfileSpec
from turnlog.projections.blueprint.schema.layer_specs import FileLayer, OverrideLayer, OverrideSpec

OVERRIDES_FOLDER: Final = "overrides"
"""The folder beside a blueprint that contains one folder for each profile."""

PROVIDER_FOLDER: Final = "{provider}"

_PROGRAM_BY_CATEGORY: Final = {
    "workflow_classification": "tools",
    "error_recovery": "tools",
    "conversation_execution": "chat",
    "genie_coordination": "coordinator",
    "rag_focused_execution": "knowledge",
}
"""Categories that only profiles of one program have."""


def has_category(profile: ProfileSpec, category: str) -> bool:
    """Return whether a profile has a category."""
    return _PROGRAM_BY_CATEGORY.get(category, profile.program) == profile.program


def get_category_program(category: str) -> str:
    """Return the only program whose profiles have the category.

    Raises `KeyError` for a category that all profiles have.
    """
    return _PROGRAM_BY_CATEGORY[category]


def list_prompt_layers(blueprint: Blueprint) -> dict[str, FileLayer]:
    """Return every prompt file that a session needs, by the name under which it is pinned."""
    found: dict[str, FileLayer] = {}
    for name, layer in blueprint.layers.items():
        if isinstance(layer, FileLayer):
            found[name] = layer
        elif isinstance(layer, OverrideLayer):
            found |= _expand_override_layer(blueprint, name, layer)
    return found


def _expand_override_layer(
    blueprint: Blueprint, name: str, layer: OverrideLayer
) -> dict[str, FileLayer]:
    override = layer.override
    folders = _expand_folders(blueprint.prompts.search, override)
    profile_layers = {
        format_override_name(name, profile): _build_file_layer(
            override, _expand_folders((f"{OVERRIDES_FOLDER}/{profile}",), override)
        )
        for profile, each in blueprint.profiles.items()
        if has_category(each, override.category)
    }
    return {
        name: _build_file_layer(override, folders).model_copy(update={"keep": layer.keep}),
        **profile_layers,
    }


def _build_file_layer(override: OverrideSpec, folders: tuple[str, ...]) -> FileLayer:
    return FileLayer(file=f"{override.category}.md", search=folders)


def _expand_folders(chain: Iterable[str], override: OverrideSpec) -> tuple[str, ...]:
    if override.by is None:
        return tuple(chain)
    pairs = ((f"{folder}/{PROVIDER_FOLDER}", folder) for folder in chain)
    return tuple(folder for pair in pairs for folder in pair)


def format_override_name(layer: str, profile: str) -> str:
    """Return the name under which a profile's version of a layer is pinned."""
    return f"{layer}@{profile}"


def find_pinned_file(
    pinned: Mapping[str, PromptFile], layer: str, profile: str
) -> PromptFile | None:
    """Return the pinned file of a layer under a profile, or None."""
    return pinned.get(format_override_name(layer, profile)) or pinned.get(layer)
