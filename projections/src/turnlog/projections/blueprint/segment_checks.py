"""Layer checks: the paths of segment layers, and the categories and files of overrides."""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.projections.blueprint.faults import Path, Remark, instead_of
from turnlog.projections.blueprint.layer import SegmentsLayer
from turnlog.projections.blueprint.schema import Blueprint, Value
from turnlog.projections.blueprint.slots import slots_in

Remarks = Iterator[Remark]

_REFS = ("id", "text", "locale")


def segment_remarks(blueprint: Blueprint) -> Remarks:
    """Check every segment layer, and the locales in which segments are requested."""
    for name, layer in blueprint.layers.items():
        if isinstance(layer, SegmentsLayer):
            yield from _layer(blueprint, ("layers", name), layer)
    for place, written in enumerate(blueprint.segments.locale):
        if "." in written:
            path = ("segments", "locale", place)
            yield from _leads(blueprint, path, written, ("locale", "id", "text"), {})


def _layer(blueprint: Blueprint, path: Path, layer: SegmentsLayer) -> Remarks:
    items: dict[str, Value] = {}
    if layer.each is not None:
        yield from _leads(blueprint, (*path, "each"), layer.each, ("list",), {})
        listed = blueprint.inputs.get(layer.each.partition(".")[2])
        items = dict(listed.of) if listed and listed.of else {}
    elif layer.heading:
        what = "there is a heading for each item, and there are no items"
        yield Remark((*path, "heading"), what, "add `each`, or leave it out")
    for slot in slots_in(layer.heading) if layer.each else ():
        if slot not in items:
            yield Remark((*path, "heading"), f"no item says `{slot}`", instead_of(slot, items))
    spec, inner = layer.segments, (*path, "segments")
    if spec.ref is not None:
        yield from _leads(blueprint, (*inner, "ref"), spec.ref, _REFS, items)
    if spec.tier is not None:
        yield from _leads(blueprint, (*inner, "tier"), spec.tier, ("int",), items)


def _leads(
    blueprint: Blueprint,
    path: Path,
    written: str,
    kinds: tuple[str, ...],
    items: dict[str, Value],
) -> Remarks:
    """Check that a path leads to a value of one of these types."""
    place, _, name = written.partition(".")
    places = {"attributes": blueprint.attributes, "inputs": blueprint.inputs, "item": items}
    values = places.get(place)
    if values is None or name not in values:
        known = [f"{each}.{value}" for each, held in places.items() for value in held]
        yield Remark(path, f"`{written}` leads nowhere", instead_of(written, known))
    elif values[name].type not in kinds:
        what = f"`{written}` is of type {values[name].type}"
        yield Remark(path, what, f"make it one of: {', '.join(kinds)}")
