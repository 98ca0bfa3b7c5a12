from __future__ import annotations

from collections.abc import Iterable, Iterator

from turnlog.projections.blueprint.faults import Remark, instead_of
from turnlog.projections.blueprint.layer import Override, OverrideLayer
from turnlog.projections.blueprint.overriding import OVERRIDES, has, program_of
from turnlog.projections.blueprint.phases import BY_PHASE
from turnlog.projections.blueprint.profile import Profile
from turnlog.projections.blueprint.schema import Blueprint

Remarks = Iterator[Remark]


def override_remarks(blueprint: Blueprint) -> Remarks:
    """Check that no call of a profile lists a category which the profile does not have."""
    for name, profile in blueprint.profiles.items():
        for call in dict.fromkeys(_calls(blueprint, profile)):
            listed = blueprint.calls[call].layers if call in blueprint.calls else ()
            for layer in listed:
                found = blueprint.layers.get(layer)
                if not isinstance(found, OverrideLayer):
                    continue
                category = found.override.category
                if not has(profile, category):
                    what = f"profile `{name}` calls it and has no `{category}`"
                    fix = f"leave `{layer}` to profiles of program {program_of(category)}"
                    yield Remark(("calls", call), what, fix)


def _calls(blueprint: Blueprint, profile: Profile) -> Iterator[str]:
    for call in profile.calls.values():
        if call == BY_PHASE and blueprint.phases:
            yield from blueprint.phases.calls.values()
        else:
            yield call


def remarks_on_files(blueprint: Blueprint, places: Iterable[str]) -> Remarks:
    """Check the files under `overrides`; a file that no session would ever use is a mistake."""
    layers = (each for each in blueprint.layers.values() if isinstance(each, OverrideLayer))
    categories: dict[str, Override] = {each.override.category: each.override for each in layers}
    for place in sorted(places if categories else ()):
        _, profile, *folders = place.split("/")
        category = folders.pop().removesuffix(".md") if folders else ""
        said, owner = categories.get(category), blueprint.profiles.get(profile)
        if owner is None:
            what = f"`{place}` is of no profile"
            yield Remark(("profiles",), what, instead_of(profile, blueprint.profiles))
        elif said is None or len(folders) > (said.by is not None):
            known = [f"{OVERRIDES}/{profile}/{each}.md" for each in categories]
            yield Remark(
                ("layers",), f"no layer is overridden by `{place}`", instead_of(place, known)
            )
        elif not has(owner, category):
            what = f"`{place}` is of a category that profile `{profile}` has not"
            fix = f"only profiles of program {program_of(category)} have it"
            yield Remark(("profiles", profile), what, fix)
