"""Segment layers: what a call requests from the library, and the pieces it makes of the answer.

Every returned segment becomes a piece, even if it is not included. The manifest therefore names all
of them, and the call can be assembled again whatever the library contains later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.model.manifest import Manifest, SegmentSource
from turnlog.projections.blueprint.schema.call_specs import MessageFormat
from turnlog.projections.blueprint.schema.layer_specs import SegmentQuery, SegmentsLayer
from turnlog.projections.blueprint.template_slots import fill_slots
from turnlog.projections.library.segment_selection import (
    CallSegments,
    SegmentRequest,
    SelectedSegment,
)
from turnlog.projections.prompt.assembly_inputs import PromptCall
from turnlog.projections.prompt.sources.layer_content import LayerItem, LayerPiece, include_text
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import SessionState

Values = Mapping[str, JsonValue]


def iterate_layer_requests(
    layer: SegmentsLayer, state: SessionState, call: PromptCall
) -> Iterator[tuple[LayerItem | None, SegmentRequest, int | None]]:
    """Yield what a layer requests: the item, the segments, and the highest tier allowed."""
    spec = layer.segments
    required = layer.keep == "always"
    if layer.each is None:
        values = {"attributes": state.attributes, "inputs": call.inputs}
        yield (
            None,
            SegmentRequest(spec.scope, _get_text_value(spec.ref, values), required),
            _get_tier(spec, values),
        )
        return
    listed = get_value(layer.each, {"inputs": call.inputs})
    for place, item in enumerate(listed if isinstance(listed, list) else ()):
        item_fields = item if isinstance(item, dict) else {}
        values = {"attributes": state.attributes, "inputs": call.inputs, "item": item_fields}
        ref = _get_text_value(spec.ref, values)
        heading = fill_slots(layer.heading, item_fields)
        named = LayerItem(place, ref or "", heading)
        yield named, SegmentRequest(spec.scope, ref, required), _get_tier(spec, values)


def list_segment_requests(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> list[SegmentRequest]:
    """Return what the layers of a call request from the library, without duplicates."""
    names = material.blueprint.calls[call.kind].layers
    layers = (material.blueprint.layers.get(name) for name in names)
    requests = (
        request
        for layer in layers
        if isinstance(layer, SegmentsLayer)
        for _, request, _ in iterate_layer_requests(layer, state, call)
    )
    return list(dict.fromkeys(requests))


def list_locales(material: SessionMaterial, state: SessionState, inputs: Values) -> tuple[str, ...]:
    """Return the locales to request, in order of preference."""
    values = {"attributes": state.attributes, "inputs": inputs}
    chain = (
        _get_text_value(each, values) if "." in each else each
        for each in material.blueprint.segments.locale
    )
    return tuple(dict.fromkeys(each for each in chain if each))


def build_segment_pieces(
    layer: SegmentsLayer, name: str, form: MessageFormat, state: SessionState, call: PromptCall
) -> tuple[LayerPiece, ...]:
    """Return the pieces of a layer; raises `Refused` if one that is always kept has no text."""
    pieces: list[LayerPiece] = []
    for item, want, tier in iterate_layer_requests(layer, state, call):
        found = call.gathered.segments.get(want)
        if found is None:
            raise Corrupt(f"layer {name}", f"the segments of {want} were not gathered")
        pieces += [
            _build_segment_piece(layer=layer, picked=each, item=item, tier=tier, form=form)
            for each in found
        ]
    if layer.keep and not any(piece.text for piece in pieces):
        raise Refused(
            "segments-missing",
            f"layer {name} is required (`keep: always`), and the library has no text for it",
            field=f"layers.{name}",
            fix=f"add an active segment of scope {layer.segments.scope}",
        )
    return tuple(pieces)


def _build_segment_piece(
    layer: SegmentsLayer,
    picked: SelectedSegment,
    item: LayerItem | None,
    tier: int | None,
    form: MessageFormat,
) -> LayerPiece:
    piece, source = (
        LayerPiece(source=picked.source, full_text=picked.text, item=item),
        picked.source,
    )
    if tier is not None and source.tier > tier:
        return replace(piece, rule=TIER_RULE)
    if source.type in layer.segments.except_:
        return replace(piece, rule=f"except {source.type}")
    return include_text(piece, picked.text, form)


TIER_RULE = "tier"
"""The rule of a segment whose tier is higher than the turn allows."""


def get_value(path: str | None, values: Mapping[str, Values]) -> JsonValue:
    """Return the value at a dotted path; None if it leads nowhere."""
    place, _, name = (path or "").partition(".")
    return values.get(place, {}).get(name)


def _get_text_value(path: str | None, values: Mapping[str, Values]) -> str | None:
    value = get_value(path, values)
    return value if isinstance(value, str) else None


def _get_tier(spec: SegmentQuery, values: Mapping[str, Values]) -> int | None:
    value = get_value(spec.tier, values)
    return value if isinstance(value, int) else None


def list_segments(manifest: Manifest) -> tuple[SegmentSource, ...]:
    """Return the segments that a call was given, including those that it left out."""
    sources = (part.source for part in manifest.parts)
    return tuple(dict.fromkeys(each for each in sources if isinstance(each, SegmentSource)))


def restore_segments(
    requests: Sequence[SegmentRequest], manifest: Manifest, blobs: Mapping[Digest, str]
) -> CallSegments:
    """Restore what a call was given from its manifest; raises `Corrupt` for a missing text."""
    recorded = list_segments(manifest) if requests else ()
    return CallSegments(
        {
            request: tuple(
                _restore_segment(each, blobs) for each in recorded if _is_requested(each, request)
            )
            for request in requests
        },
        manifest.omitted,
        manifest.stale,
    )


def _is_requested(source: SegmentSource, want: SegmentRequest) -> bool:
    return (source.scope, source.ref) == (want.scope, want.ref)


def _restore_segment(source: SegmentSource, blobs: Mapping[Digest, str]) -> SelectedSegment:
    text = blobs.get(source.digest)
    if text is None:
        raise Corrupt(f"segment {source.segment}", f"the text of {source.digest} was not fetched")
    return SelectedSegment(source, text)
