"""Layer checks: slots, files and paths of each kind of layer, and the categories of overrides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final, assert_never

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, ValueSpec
from turnlog.projections.blueprint.schema.call_specs import (
    ProfileSpec,
)
from turnlog.projections.blueprint.schema.layer_specs import (
    CORRECTION_LAYER,
    INPUT_LAYER,
    NOW_SLOTS,
    OUTPUT_LAYER,
    REJECTED_LAYER,
    TOOL_CALLS_LAYER,
    TOOL_RESULTS_LAYER,
    AttributeLayer,
    CarryLayer,
    ChoicesLayer,
    FieldsLayer,
    FileLayer,
    InputLayer,
    LayerSpec,
    NowLayer,
    OverrideLayer,
    OverrideSpec,
    PromptsLayer,
    ResolvedLayer,
    ResultsLayer,
    RetrievalLayer,
    SegmentsLayer,
    SourceLayer,
    StepLayer,
    TextLayer,
    ToolsLayer,
    WhenAttribute,
)
from turnlog.projections.blueprint.schema.phase_specs import BY_PHASE
from turnlog.projections.blueprint.schema.prompt_overrides import (
    OverridePlace,
    get_category_program,
    has_category,
)
from turnlog.projections.blueprint.template_slots import find_slots
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    DocumentPath,
    check_known_name,
    suggest_word,
)

_REF_TYPES = ("id", "text", "locale")


def check_segment_layers(blueprint: Blueprint) -> BlueprintFindings:
    """Check every segment layer, and the locales in which segments are requested."""
    for name, layer in blueprint.layers.items():
        if isinstance(layer, SegmentsLayer):
            yield from _check_segments_layer(blueprint, ("layers", name), layer)
    for place, written in enumerate(blueprint.segments.locale):
        if "." in written:
            path = ("segments", "locale", place)
            yield from _check_value_path(
                blueprint=blueprint,
                path=path,
                written=written,
                kinds=("locale", "id", "text"),
                items={},
            )


def _check_segments_layer(
    blueprint: Blueprint, path: DocumentPath, layer: SegmentsLayer
) -> BlueprintFindings:
    items: dict[str, ValueSpec] = {}
    if layer.each is not None:
        yield from _check_value_path(
            blueprint=blueprint, path=(*path, "each"), written=layer.each, kinds=("list",), items={}
        )
        listed = blueprint.inputs.get(layer.each.partition(".")[2])
        items = dict(listed.of) if listed and listed.of else {}
    elif layer.heading:
        what = "there is a heading for each item, and there are no items"
        yield BlueprintFinding((*path, "heading"), what, "add `each`, or leave it out")
    for slot in find_slots(layer.heading) if layer.each else ():
        if slot not in items:
            yield BlueprintFinding(
                (*path, "heading"), f"no item says `{slot}`", suggest_word(slot, items)
            )
    spec, inner = layer.segments, (*path, "segments")
    if spec.ref is not None:
        yield from _check_value_path(
            blueprint=blueprint,
            path=(*inner, "ref"),
            written=spec.ref,
            kinds=_REF_TYPES,
            items=items,
        )
    if spec.tier is not None:
        yield from _check_value_path(
            blueprint=blueprint,
            path=(*inner, "tier"),
            written=spec.tier,
            kinds=("int",),
            items=items,
        )


def _check_value_path(
    blueprint: Blueprint,
    path: DocumentPath,
    written: str,
    kinds: tuple[str, ...],
    items: dict[str, ValueSpec],
) -> BlueprintFindings:
    """Check that a path leads to a value of one of these types."""
    place, _, name = written.partition(".")
    places = {"attributes": blueprint.attributes, "inputs": blueprint.inputs, "item": items}
    values = places.get(place)
    if values is None or name not in values:
        known = [
            f"{each}.{value}" for each, place_values in places.items() for value in place_values
        ]
        yield BlueprintFinding(path, f"`{written}` does not exist", suggest_word(written, known))
    elif values[name].type not in kinds:
        what = f"`{written}` is of type {values[name].type}"
        yield BlueprintFinding(path, what, f"make it one of: {', '.join(kinds)}")


def check_overrides(blueprint: Blueprint) -> BlueprintFindings:
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
                    what = f"profile `{name}` uses this call and has no `{category}`"
                    fix = f"leave `{layer}` to profiles of program {get_category_program(category)}"
                    yield BlueprintFinding(("calls", call), what, fix)


def _iterate_profile_calls(blueprint: Blueprint, profile: ProfileSpec) -> Iterator[str]:
    for call in profile.calls.values():
        if call == BY_PHASE and blueprint.phases:
            yield from blueprint.phases.calls.values()
        else:
            yield call


def check_override_files(blueprint: Blueprint, places: Iterable[str]) -> BlueprintFindings:
    """Check the files under `overrides`; a file that no session would ever use is a mistake."""
    has_categories = any(isinstance(each, OverrideLayer) for each in blueprint.layers.values())
    for place in sorted(places if has_categories else ()):
        _, profile, *folders = place.split("/")
        category = folders.pop().removesuffix(".md") if folders else ""
        named = OverridePlace(category, profile, "/".join(folders) or None)
        if fault := find_override_fault(blueprint, named, place):
            yield fault


def find_override_fault(
    blueprint: Blueprint, named: OverridePlace, place: str
) -> BlueprintFinding | None:
    """Return why no session would ever use an override, a file or a user's text; None if one may.

    `place` is its path as people know it. The path of the finding begins with `profiles` or
    `layers`.
    """
    profile = named.profile
    layers = (each for each in blueprint.layers.values() if isinstance(each, OverrideLayer))
    categories: dict[str, OverrideSpec] = {each.override.category: each.override for each in layers}
    override, owner = categories.get(named.category), blueprint.profiles.get(profile or "")
    if profile is not None and owner is None:
        what = f"`{place}` is of no profile"
        return BlueprintFinding(("profiles",), what, suggest_word(profile, blueprint.profiles))
    provider = named.provider or ""
    if override is None or "/" in provider or (provider and override.by is None):
        known = [OverridePlace(each, profile).path for each in categories]
        what = f"no layer is overridden by `{place}`"
        return BlueprintFinding(("layers",), what, suggest_word(place, known))
    if owner is not None and not has_category(owner, named.category):
        what = f"`{place}` has a category that profile `{profile}` does not have"
        fix = f"only profiles of program {get_category_program(named.category)} have it"
        return BlueprintFinding(("profiles", profile or ""), what, fix)
    return None


PROVIDER_SLOT: Final = "provider"
"""The slot of file paths that is not an attribute."""


BUILT_IN_LAYERS: Final = (
    INPUT_LAYER,
    "history",
    OUTPUT_LAYER,
    REJECTED_LAYER,
    CORRECTION_LAYER,
    TOOL_CALLS_LAYER,
    TOOL_RESULTS_LAYER,
)
"""Layers that exist without being defined."""


PATH_VALUE_TYPES: Final = frozenset({"id", "locale"})
"""Types of attributes that may be part of a path."""


def check_layers(blueprint: Blueprint) -> BlueprintFindings:
    for name, layer in blueprint.layers.items():
        path = ("layers", name)
        if name in BUILT_IN_LAYERS:
            yield BlueprintFinding(path, f"`{name}` is a layer of its own", "choose another name")
        if isinstance(layer.when, WhenAttribute):
            attribute_path = (*path, "when", "attribute")
            yield from check_known_name(
                attribute_path, "attribute", layer.when.attribute, blueprint.attributes
            )
        yield from _check_layer_source(blueprint, path, layer)


def _check_layer_source(
    blueprint: Blueprint, path: DocumentPath, layer: LayerSpec
) -> BlueprintFindings:
    match layer:
        case TextLayer(text=text):
            for slot in find_slots(text):
                yield from check_known_name(
                    (*path, "text"), "attribute", slot, blueprint.attributes
                )
        case NowLayer(now=text):
            for slot in find_slots(text):
                yield from check_known_name((*path, "now"), "slot", slot, NOW_SLOTS)
        case AttributeLayer(attribute=attribute):
            yield from check_known_name(
                (*path, "attribute"), "attribute", attribute, blueprint.attributes
            )
        case FileLayer(file=file, search=search):
            yield from _check_file_path(blueprint, (*path, "file"), file)
            yield from check_search_folders(blueprint, (*path, "search"), search or ())
        case InputLayer(input=name):
            yield from check_known_name((*path, "input"), "input", name, blueprint.inputs)
        case FieldsLayer() | ChoicesLayer() | SourceLayer() | SegmentsLayer() | ResolvedLayer():
            return
        case OverrideLayer() | ToolsLayer() | PromptsLayer():
            return
        case StepLayer() | ResultsLayer() | CarryLayer() | RetrievalLayer():
            return
        case _ as never:
            assert_never(never)


def check_search_folders(
    blueprint: Blueprint, path: DocumentPath, folders: Sequence[str]
) -> BlueprintFindings:
    for place, folder in enumerate(folders):
        yield from _check_file_path(blueprint, (*path, place), folder)


def _check_file_path(blueprint: Blueprint, path: DocumentPath, written: str) -> BlueprintFindings:
    if is_outside_folder(written):
        yield BlueprintFinding(
            path, f"`{written}` leaves the folder", "name a place beside the blueprint"
        )
    for slot in find_slots(written):
        yield from check_known_name(path, "attribute", slot, (*blueprint.attributes, PROVIDER_SLOT))
        value = blueprint.attributes.get(slot)
        if value and value.type not in PATH_VALUE_TYPES:
            what = f"`{slot}` is of type {value.type}, which no path can hold"
            yield BlueprintFinding(
                path, what, f"make it one of: {', '.join(sorted(PATH_VALUE_TYPES))}"
            )


def is_outside_folder(written: str) -> bool:
    """Return whether a path is anything but a plain relative path below the blueprint's folder."""
    path = PurePosixPath(written)
    return path.is_absolute() or ".." in path.parts or "\\" in written or "\0" in written
