"""Layers: a named part of a prompt becomes a text with a source, or leaves no trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar, assert_never

from turnlog.events.errors import Corrupt
from turnlog.events.manifest import FromBlob, FromBlueprint, FromEvent, Source
from turnlog.projections.blueprint.schema import (
    AttributeLayer,
    Blueprint,
    FileLayer,
    Layer,
    TextLayer,
)
from turnlog.projections.blueprint.slots import filled_slots, spelt
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.call import Call, Texts

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
    """Why it is left out."""


def layer_piece(
    blueprint: Blueprint, state: SessionState, call: Call, texts: Texts, name: str
) -> Piece:
    """Resolve one layer; raises `Corrupt` when a text it needs was not fetched."""
    if name == INPUT:
        return _input(state, texts)
    layer = blueprint.layers[name]
    if layer.when == "first_turn" and state.completed > 0:
        return Piece(name, layer.component, None, "", keep=False, rule="when first_turn")
    source, text = _sourced(layer, name, state, call, texts)
    rule = None if text else NOTHING
    return Piece(name, layer.component, source, text, layer.keep == "always", rule)


def _input(state: SessionState, texts: Texts) -> Piece:
    said = state.open.text if state.open else None
    if said is None:
        return Piece(INPUT, "query", None, "", keep=True, rule="no input")
    source = FromEvent(sequence=said.sequence, field=said.field)
    text = _fetched(texts.said, said, INPUT)
    return Piece(INPUT, "query", source, text, keep=True, rule=None if text else NOTHING)


def _sourced(
    layer: Layer, name: str, state: SessionState, call: Call, texts: Texts
) -> tuple[Source | None, str]:
    match layer:
        case TextLayer(text=text):
            filled = filled_slots(text, state.attributes)
            return FromBlueprint(text=filled), filled
        case AttributeLayer(attribute=attribute):
            source = FromEvent(sequence=state.opened.sequence, field=f"attributes.{attribute}")
            return source, spelt(state.attributes.get(attribute))
        case FileLayer():
            file = state.prompts.get(call.provider, {}).get(name)
            if file is None:
                return None, ""
            text = _fetched(texts.blobs, file.digest, name)
            return FromBlob(digest=file.digest, path=file.path), text
        case _ as never:
            assert_never(never)


def _fetched(texts: Mapping[Key, str], key: Key, layer: str) -> str:
    text = texts.get(key)
    if text is None:
        raise Corrupt(f"layer {layer}", f"the text of {key} was not fetched")
    return text
