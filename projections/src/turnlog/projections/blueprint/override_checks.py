from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnlog.projections.blueprint.faults import BlueprintFinding, suggest_word
from turnlog.projections.blueprint.layer import OverrideSpec, OverrideLayer
from turnlog.projections.blueprint.overriding import OVERRIDES_FOLDER, has_category, get_category_program
from turnlog.projections.blueprint.phases import BY_PHASE
from turnlog.projections.blueprint.profile import ProfileSpec
from turnlog.projections.blueprint.schema import Blueprint

OverrideFindings = Iterator[BlueprintFinding]


def check_overrides(blueprint: Blueprint) -> OverrideFindings:
    """Check that no call of a profile lists a category which the profile does not have."""
    for name, profile in blueprint.profiles.items():
        for call in dict.fromkeys(_iterate_profile_calls(blueprint, profile)):
            listed = blueprint.calls[call].layers if call in blueprint.calls else ()
            for layer in listed:
                found = blueprint.layers.get(layer)
                if not isinstance(found, OverrideLayer):
                    continue
                category = found.override.category
                if not has_category(profile, category):
                    what = f"profile `{name}` calls it and has no `{category}`"
                    fix = f"leave `{layer}` to profiles of program {get_category_program(category)}"
                    yield BlueprintFinding(("calls", call), what, fix)


def _iterate_profile_calls(blueprint: Blueprint, profile: ProfileSpec) -> Iterator[str]:
    for call in profile.calls.values():
        if call == BY_PHASE and blueprint.phases:
            yield from blueprint.phases.calls.values()
        else:
            yield call


def check_override_files(blueprint: Blueprint, places: Iterable[str]) -> OverrideFindings:
    """Check the files under `overrides`; a file that no session would ever use is a mistake."""
    layers = (each for each in blueprint.layers.values() if isinstance(each, OverrideLayer))
    categories: dict[str, OverrideSpec] = {each.override.category: each.override for each in layers}
    for place in sorted(places if categories else ()):
        _, profile, *folders = place.split("/")
        category = folders.pop().removesuffix(".md") if folders else ""
        said, owner = categories.get(category), blueprint.profiles.get(profile)
        if owner is None:
            what = f"`{place}` is of no profile"
            yield BlueprintFinding(("profiles",), what, suggest_word(profile, blueprint.profiles))
        elif said is None or len(folders) > (said.by is not None):
            known = [f"{OVERRIDES_FOLDER}/{profile}/{each}.md" for each in categories]
            yield BlueprintFinding(
                ("layers",), f"no layer is overridden by `{place}`", suggest_word(place, known)
            )
        elif not has_category(owner, category):
            what = f"`{place}` is of a category that profile `{profile}` has not"
            fix = f"only profiles of program {get_category_program(category)} have it"
            yield BlueprintFinding(("profiles", profile), what, fix)
