"""Prompt overrides: prompt files by category that a profile or a user may replace by their own.

The default file of a category is found along the prompt search path; the file of a profile is in
`overrides/<profile>`, and both may have subfolders by provider. All of them are pinned at the first
call, so that a session that switches its profile later still uses the files of its start.

A user's own text stands before every file. Where a user has several of a category, that of the
profile stands before that of the provider, as it does among files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from turnlog.events.model.override_events import UserOverride
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


@dataclass(frozen=True, slots=True)
class OverridePlace:
    """Which prompt file an override stands for: of a category, a profile and a provider."""

    category: str
    profile: str | None = None
    """None stands for all profiles."""
    provider: str | None = None
    """None stands for all providers."""

    @property
    def path(self) -> str:
        """The path that the file has in the blueprint's folder."""
        folders = (OVERRIDES_FOLDER, self.profile) if self.profile else ()
        return "/".join((*folders, *filter(None, [self.provider]), f"{self.category}.md"))


def get_override_place(override: UserOverride) -> OverridePlace:
    """Return which prompt file a user's text stands for."""
    return OverridePlace(override.category, override.profile, override.provider)


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


def find_user_override(
    own: Iterable[UserOverride], spec: OverrideSpec, profile: str, provider: str
) -> UserOverride | None:
    """Return a user's own text of a category under a profile and a provider, or None."""
    by_place = {get_override_place(each): each for each in own}
    providers = (None,) if spec.by is None else (provider, None)
    places = (
        OverridePlace(spec.category, of_profile, of_provider)
        for of_profile in (profile, None)
        for of_provider in providers
    )
    return next((by_place[place] for place in places if place in by_place), None)
