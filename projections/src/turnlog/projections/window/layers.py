"""Layers: a named part of a prompt becomes a text with a source, or leaves no trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, assert_never

from turnlog.events.errors import Corrupt
from turnlog.events.manifest import FromBlob, FromBlueprint, FromEvent, FromResolved, Source
from turnlog.projections.blueprint.layer import (
    AttributeLayer,
    ChoicesLayer,
    FieldsLayer,
    FileLayer,
    Layer,
    ResolvedLayer,
    SourceLayer,
    TextLayer,
)
from turnlog.projections.blueprint.slots import filled_slots, slots_in, spelt
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.call import Call, Texts
from turnlog.projections.window.conditions import condition_name, holds
from turnlog.projections.window.material import Material, listed
from turnlog.projections.window.resolved import resolved_text

INPUT: Final = "input"
"""The built-in layer: the text of the turn."""

NOTHING: Final = "nothing to say"
"""Why a layer whose text is empty is left out."""

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Piece:
    """A layer as it would stand in one call."""

    layer: str
    component: str
    source: Source | None
    text: str
    """Empty when it is left out."""
    keep: bool
    rule: str | None = None
    """The condition it stands under, or why it is left out."""


def layer_piece(
    material: Material, state: SessionState, call: Call, texts: Texts, name: str
) -> Piece:
    """Resolve one layer; raises `Corrupt` when a text it needs was not fetched."""
    if name == INPUT:
        return _input(state, texts)
    layer = material.blueprint.layers[name]
    rule = f"when {condition_name(layer.when)}" if layer.when else None
    if layer.when and not holds(layer.when, material, state):
        return Piece(name, layer.component, None, "", keep=False, rule=rule)
    source, text = _sourced(layer, name, material, state, call, texts)
    return Piece(
        name, layer.component, source, text, layer.keep == "always", rule if text else NOTHING
    )


def _input(state: SessionState, texts: Texts) -> Piece:
    said = state.open.text if state.open else None
    if said is None:
        return Piece(INPUT, "query", None, "", keep=True, rule="no input")
    source = FromEvent(sequence=said.sequence, field=said.field)
    text = _fetched(texts.said, said, INPUT)
    return Piece(INPUT, "query", source, text, keep=True, rule=None if text else NOTHING)


def _sourced(
    layer: Layer,
    name: str,
    material: Material,
    state: SessionState,
    call: Call,
    texts: Texts,
) -> tuple[Source | None, str]:
    match layer:
        case TextLayer(text=text):
            of = tuple(f"attributes.{slot}" for slot in slots_in(text))
            return _written(filled_slots(text, state.attributes), of)
        case AttributeLayer(attribute=attribute):
            source = FromEvent(sequence=state.opened.sequence, field=f"attributes.{attribute}")
            return source, spelt(state.attributes.get(attribute))
        case FieldsLayer(heading=heading, fields=fields):
            spelled = [(label, listed(material.at(p, state))) for label, p in fields.items()]
            lines = [f"{label}: {value}" for label, value in spelled if value]
            return _written("\n".join(filter(None, (heading, *lines))), tuple(fields.values()))
        case ChoicesLayer(heading=heading):
            labels = [made.label for made in state.choices if made.label]
            text = "\n".join(filter(None, (heading, *labels))) if labels else ""
            return _written(text, ("session.choices",))
        case ResolvedLayer():
            return _resolved(layer, name, state, texts)
        case FileLayer() | SourceLayer():
            file = state.prompts.get(call.provider, {}).get(name)
            if file is None:
                return None, ""
            text = _fetched(texts.blobs, file.digest, name)
            return FromBlob(digest=file.digest, path=file.path), text
        case _ as never:
            assert_never(never)


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
