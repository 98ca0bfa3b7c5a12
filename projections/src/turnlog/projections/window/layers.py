"""Resolve the layers of a message to texts with a source.

A layer without a text leaves no trace in the prompt, but its part in the manifest says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar, assert_never

from turnlog.events.errors import Corrupt
from turnlog.events.manifest import FromBlob, FromBlueprint, FromEvent, FromResolved, Source
from turnlog.projections.blueprint.form import Form
from turnlog.projections.blueprint.layer import (
    AttributeLayer,
    CarryLayer,
    ChoicesLayer,
    FieldsLayer,
    FileLayer,
    InputLayer,
    Layer,
    OverrideLayer,
    PromptsLayer,
    ResolvedLayer,
    ResultsLayer,
    SegmentsLayer,
    SourceLayer,
    StepLayer,
    TextLayer,
    ToolsLayer,
)
from turnlog.projections.blueprint.overriding import pinned_file
from turnlog.projections.blueprint.slots import filled_slots, slots_in, spelt
from turnlog.projections.session.state import Said, SessionState
from turnlog.projections.window.call import Call, Texts
from turnlog.projections.window.conditions import condition_name, holds
from turnlog.projections.window.hydrating import hydration, in_short, named
from turnlog.projections.window.material import Material, listed
from turnlog.projections.window.pieces import Block, Item, Piece, stood
from turnlog.projections.window.resolved import resolved_text
from turnlog.projections.window.segments import segment_pieces
from turnlog.projections.window.stepping import told_of
from turnlog.projections.window.telling import told
from turnlog.projections.window.visibility import sight

INPUT: Final = "input"
"""The built-in layer that holds the text of the turn."""

NOTHING: Final = "nothing to say"
"""The rule of a layer whose text is empty."""
DISTIL: Final = "distil"
"""The rule of a text that condenses a longer tool result."""
"""Why a layer whose text is empty is left out."""

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that the text of a layer can come from."""

    material: Material
    state: SessionState
    call: Call
    texts: Texts


def layer_block(sources: Sources, name: str, form: Form) -> Block:
    """Resolve one layer; raises `Corrupt` if a text that it needs was not fetched."""
    if name == INPUT:
        return Block(INPUT, "query", True, form, (_input(sources, form),))  # noqa: FBT003
    layer = sources.material.blueprint.layers[name]
    keep = layer.keep == "always"
    return Block(name, layer.component, keep, form, _pieces(sources, layer, name, form))


def _pieces(sources: Sources, layer: Layer, name: str, form: Form) -> tuple[Piece, ...]:
    rule = f"when {condition_name(layer.when)}" if layer.when else None
    material, state, call = sources.material, sources.state, sources.call
    if layer.when and not holds(layer.when, material, state, call):
        return (Piece(None, "", rule=rule),)
    if isinstance(layer, SegmentsLayer):
        found = segment_pieces(layer, name, form, state, call)
        return tuple(_under(rule, piece) for piece in found) or (Piece(None, "", rule=NOTHING),)
    if isinstance(layer, StepLayer):
        said = [_told(each, sources, name, form) for each in told_of(layer, material, state)]
        return tuple(_under(rule, piece) for piece in said) or (Piece(None, "", rule=NOTHING),)
    if isinstance(layer, ResultsLayer):
        return tuple(_under(rule, piece) for piece in _hydrated(layer, sources, name, form))
    if isinstance(layer, ToolsLayer | PromptsLayer):
        return told(layer, material, state, sources.texts.blobs, form) or (
            Piece(None, "", rule=NOTHING),
        )
    source, text = _sourced(layer, name, sources)
    return (_under(rule, _piece(source, text, form)),)


def _under(rule: str | None, piece: Piece) -> Piece:
    """Record the condition of a layer on a piece, unless the piece has a rule of its own."""
    return replace(piece, rule=piece.rule or rule) if piece.text else piece


def _piece(source: Source | None, text: str, form: Form) -> Piece:
    return stood(Piece(source, text), text, form) if text else Piece(source, text, rule=NOTHING)


def _input(sources: Sources, form: Form) -> Piece:
    said = sources.state.open.text if sources.state.open else None
    if said is None:
        return Piece(None, "", rule="no input")
    return _told(said, sources, INPUT, form)


def _hydrated(layer: ResultsLayer, sources: Sources, name: str, form: Form) -> Iterator[Piece]:
    found = hydration(sources.material, sources.state)
    heading = f"{layer.heading}\n" if layer.heading else ""
    for place, (word, given) in enumerate(named(found.results)):
        piece = _told(given.summary, sources, name, form)
        yield replace(piece, item=Item(place, word, f"{heading}{word}:"))
        heading = ""
    if not found.results:
        yield Piece(None, "", rule=found.why or NOTHING)


def _told(said: Said, sources: Sources, layer: str, form: Form) -> Piece:
    source = FromEvent(sequence=said.sequence, field=said.field)
    piece = _piece(source, _fetched(sources.texts.said, said, layer), form)
    if piece.text and said in in_short(sources.state):
        return replace(piece, treatment="condensed", rule=DISTIL)
    return piece


def _sourced(layer: Layer, name: str, sources: Sources) -> tuple[Source | None, str]:
    material, state, call = sources.material, sources.state, sources.call
    match layer:
        case FileLayer() | OverrideLayer() | SourceLayer():
            file = pinned_file(state.prompts.get(call.provider, {}), name, state.profile)
            if file is None:
                return None, ""
            text = _fetched(sources.texts.blobs, file.digest, name)
            return FromBlob(digest=file.digest, path=file.path), text
        case TextLayer(text=text):
            of = tuple(f"attributes.{slot}" for slot in slots_in(text))
            return _written(filled_slots(text, state.attributes), of)
        case AttributeLayer(attribute=attribute):
            source = FromEvent(sequence=state.attributes_in, field=f"attributes.{attribute}")
            return source, spelt(state.attributes.get(attribute))
        case InputLayer(input=name):
            return _brought(state, call, name)
        case FieldsLayer(heading=heading, fields=fields):
            spelled = [(label, listed(material.at(p, state))) for label, p in fields.items()]
            lines = [f"{label}: {value}" for label, value in spelled if value]
            return _written("\n".join(filter(None, (heading, *lines))), tuple(fields.values()))
        case CarryLayer():
            carried = state.carried
            if carried is None:
                return None, ""
            told = _fetched(sources.texts.said, carried, name)
            return FromEvent(sequence=carried.sequence, field=carried.field), told
        case ChoicesLayer(heading=heading):
            seen = sight(material, state)
            made = (each for each in state.choices if seen.holds(each.phase))
            labels = [each.label for each in made if each.label]
            text = "\n".join(filter(None, (heading, *labels))) if labels else ""
            return _written(text, ("session.choices",))
        case ResolvedLayer():
            return _resolved(layer, name, state, sources.texts)
        case SegmentsLayer() | StepLayer() | ResultsLayer() | ToolsLayer() | PromptsLayer():
            raise TypeError(name)
        case _ as never:
            assert_never(never)


def _brought(state: SessionState, call: Call, name: str) -> tuple[Source | None, str]:
    """Return an input of the turn; its event is known only while the turn is open."""
    given = state.open.inputs if state.open else None
    if given is None or name not in call.inputs:
        return None, ""
    return FromEvent(sequence=given.sequence, field=f"inputs.{name}"), spelt(call.inputs[name])


def _resolved(
    layer: ResolvedLayer, name: str, state: SessionState, texts: Texts
) -> tuple[Source | None, str]:
    said = state.open.resolved if state.open else None
    if said is None:
        return None, ""
    results = _fetched(texts.said, said.results, name)
    text = resolved_text(layer.heading, layer.resolved, said, results)
    lines = dict[str, str](layer.resolved)
    source = FromResolved(resolution=said.results.sequence, heading=layer.heading, lines=lines)
    return source, text


def _written(text: str, of: tuple[str, ...]) -> tuple[Source, str]:
    return FromBlueprint(text=text, of=of), text


def _fetched(texts: Mapping[Key, str], key: Key, layer: str) -> str:
    text = texts.get(key)
    if text is None:
        raise Corrupt(f"layer {layer}", f"the text of {key} was not fetched")
    return text
