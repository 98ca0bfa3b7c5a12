"""Segment layers: what a call requests from the library, and the pieces it makes of the answer.

Every returned segment becomes a piece, even if it is not included. The manifest therefore names all
of them, and the call can be assembled again whatever the library contains later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt, Refused
from turnlog.events.manifest import FromSegment, Manifest, Omission
from turnlog.projections.blueprint.form import Form
from turnlog.projections.blueprint.layer import Segments, SegmentsLayer
from turnlog.projections.blueprint.slots import filled_slots
from turnlog.projections.library.picked import Gathered, Omitted, Picked, Wanted
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.call import Call
from turnlog.projections.window.material import Material
from turnlog.projections.window.pieces import Item, Piece, stood

Values = Mapping[str, JsonValue]


def asked_for(
    layer: SegmentsLayer, state: SessionState, call: Call
) -> Iterator[tuple[Item | None, Wanted, int | None]]:
    """Yield what a layer requests: the item, the segments, and the highest tier allowed."""
    spec = layer.segments
    required = layer.keep == "always"
    if layer.each is None:
        given = {"attributes": state.attributes, "inputs": call.inputs}
        yield None, Wanted(spec.scope, _text_at(spec.ref, given), required), _tier(spec, given)
        return
    listed = value_at(layer.each, {"inputs": call.inputs})
    for place, item in enumerate(listed if isinstance(listed, list) else ()):
        said = item if isinstance(item, dict) else {}
        given = {"attributes": state.attributes, "inputs": call.inputs, "item": said}
        ref = _text_at(spec.ref, given)
        heading = filled_slots(layer.heading, said)
        named = Item(place, ref or "", heading)
        yield named, Wanted(spec.scope, ref, required), _tier(spec, given)


def wanted(
    material: Material, names: Iterable[str], state: SessionState, call: Call
) -> list[Wanted]:
    """Return everything that these layers request from the library, without duplicates."""
    layers = (material.blueprint.layers.get(name) for name in names)
    asked = (
        want
        for layer in layers
        if isinstance(layer, SegmentsLayer)
        for _, want, _ in asked_for(layer, state, call)
    )
    return list(dict.fromkeys(asked))


def locales(material: Material, state: SessionState, inputs: Values) -> tuple[str, ...]:
    """Return the locales to request, in order of preference."""
    given = {"attributes": state.attributes, "inputs": inputs}
    chain = (
        _text_at(each, given) if "." in each else each
        for each in material.blueprint.segments.locale
    )
    return tuple(dict.fromkeys(each for each in chain if each))


def segment_pieces(
    layer: SegmentsLayer, name: str, form: Form, state: SessionState, call: Call
) -> tuple[Piece, ...]:
    """Return the pieces of a layer; raises `Refused` if one that is always kept has no text."""
    pieces: list[Piece] = []
    for item, want, tier in asked_for(layer, state, call):
        found = call.gathered.segments.get(want)
        if found is None:
            raise Corrupt(f"layer {name}", f"the segments of {want} were not gathered")
        pieces += [_piece(layer, each, item, tier, form) for each in found]
    if layer.keep and not any(piece.text for piece in pieces):
        raise Refused(
            "segments-missing",
            f"layer {name} must always be there, and the library has no text for it",
            field=f"layers.{name}",
            fix=f"add an active segment of scope {layer.segments.scope}",
        )
    return tuple(pieces)


def _piece(
    layer: SegmentsLayer, picked: Picked, item: Item | None, tier: int | None, form: Form
) -> Piece:
    piece = Piece(_source(picked), picked.text, item=item)
    if tier is not None and picked.tier > tier:
        return Piece(piece.source, piece.whole, rule=HIDDEN, item=item)
    if picked.type in layer.segments.except_:
        return Piece(piece.source, piece.whole, rule=f"except {picked.type}", item=item)
    return stood(piece, piece.whole, form)


HIDDEN = "tier"
"""The rule of a segment whose tier is higher than the turn allows."""


def _source(picked: Picked) -> FromSegment:
    return FromSegment(
        segment=picked.id,
        version=picked.version,
        digest=picked.digest,
        scope=picked.scope,
        ref=picked.ref,
        locale=picked.locale,
        variant=picked.variant,
        tier=picked.tier,
        type=picked.type,
        priority=picked.priority,
    )


def value_at(path: str | None, given: Mapping[str, Values]) -> JsonValue:
    """Return the value at a dotted path; None if it leads nowhere."""
    place, _, name = (path or "").partition(".")
    return given.get(place, {}).get(name)


def _text_at(path: str | None, given: Mapping[str, Values]) -> str | None:
    value = value_at(path, given)
    return value if isinstance(value, str) else None


def _tier(spec: Segments, given: Mapping[str, Values]) -> int | None:
    value = value_at(spec.tier, given)
    return value if isinstance(value, int) else None


def omissions(gathered: Gathered) -> tuple[Omission, ...]:
    """Return what the library could not provide, as the manifest records it."""
    return tuple(
        Omission(scope=each.scope, ref=each.ref, segment=each.segment, reason=each.reason)
        for each in gathered.omitted
    )


def segments_in(manifest: Manifest) -> tuple[FromSegment, ...]:
    """Return the segments that a call was given, including those that it left out."""
    sources = (part.source for part in manifest.parts)
    return tuple(dict.fromkeys(each for each in sources if isinstance(each, FromSegment)))


def recalled(asked: Sequence[Wanted], manifest: Manifest, blobs: Mapping[Digest, str]) -> Gathered:
    """Restore what a call was given from its manifest; raises `Corrupt` for a missing text."""
    held = segments_in(manifest) if asked else ()
    return Gathered(
        {
            want: tuple(_picked(each, blobs) for each in held if _meant(each, want))
            for want in asked
        },
        tuple(Omitted(o.scope, o.ref, o.segment, o.reason) for o in manifest.omitted),
        manifest.stale,
    )


def _meant(source: FromSegment, want: Wanted) -> bool:
    return (source.scope, source.ref) == (want.scope, want.ref)


def _picked(source: FromSegment, blobs: Mapping[Digest, str]) -> Picked:
    text = blobs.get(source.digest)
    if text is None:
        raise Corrupt(f"segment {source.segment}", f"the text of {source.digest} was not fetched")
    return Picked(
        source.segment,
        source.scope,
        source.ref,
        source.locale,
        source.version,
        source.variant,
        source.tier,
        source.type,
        source.priority,
        source.digest,
        text,
    )
