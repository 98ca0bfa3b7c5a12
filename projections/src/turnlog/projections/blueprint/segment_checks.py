"""Layer checks: the paths of segment layers, and the categories and files of overrides."""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.projections.blueprint.faults import DocumentPath, BlueprintFinding, suggest_word
from turnlog.projections.blueprint.layer import SegmentsLayer
from turnlog.projections.blueprint.schema import Blueprint, ValueSpec
from turnlog.projections.blueprint.slots import find_slots

SegmentFindings = Iterator[BlueprintFinding]

_REF_TYPES = ("id", "text", "locale")


def check_segment_layers(blueprint: Blueprint) -> SegmentFindings:
    """Check every segment layer, and the locales in which segments are requested."""
    for name, layer in blueprint.layers.items():
        if isinstance(layer, SegmentsLayer):
            yield from _check_segments_layer(blueprint, ("layers", name), layer)
    for place, written in enumerate(blueprint.segments.locale):
        if "." in written:
            path = ("segments", "locale", place)
            yield from _check_value_path(blueprint, path, written, ("locale", "id", "text"), {})


def _check_segments_layer(blueprint: Blueprint, path: DocumentPath, layer: SegmentsLayer) -> SegmentFindings:
    items: dict[str, ValueSpec] = {}
    if layer.each is not None:
        yield from _check_value_path(blueprint, (*path, "each"), layer.each, ("list",), {})
        listed = blueprint.inputs.get(layer.each.partition(".")[2])
        items = dict(listed.of) if listed and listed.of else {}
    elif layer.heading:
        what = "there is a heading for each item, and there are no items"
        yield BlueprintFinding((*path, "heading"), what, "add `each`, or leave it out")
    for slot in find_slots(layer.heading) if layer.each else ():
        if slot not in items:
            yield BlueprintFinding((*path, "heading"), f"no item says `{slot}`", suggest_word(slot, items))
    spec, inner = layer.segments, (*path, "segments")
    if spec.ref is not None:
        yield from _check_value_path(blueprint, (*inner, "ref"), spec.ref, _REF_TYPES, items)
    if spec.tier is not None:
        yield from _check_value_path(blueprint, (*inner, "tier"), spec.tier, ("int",), items)


def _check_value_path(
    blueprint: Blueprint,
    path: DocumentPath,
    written: str,
    kinds: tuple[str, ...],
    items: dict[str, ValueSpec],
) -> SegmentFindings:
    """Check that a path leads to a value of one of these types."""
    place, _, name = written.partition(".")
    places = {"attributes": blueprint.attributes, "inputs": blueprint.inputs, "item": items}
    values = places.get(place)
    if values is None or name not in values:
        known = [f"{each}.{value}" for each, held in places.items() for value in held]
        yield BlueprintFinding(path, f"`{written}` leads nowhere", suggest_word(written, known))
    elif values[name].type not in kinds:
        what = f"`{written}` is of type {values[name].type}"
        yield BlueprintFinding(path, what, f"make it one of: {', '.join(kinds)}")
