"""Layers of what a turn retrieved, and the decision whether its best entry is to be adapted.

An entry is a blob that the event of the retrieval pins by its digest, so a prompt needs neither the
index nor the collection. A retrieval belongs to one turn, and thereby to the phase of that turn: no
other turn shows what it took.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from turnlog.events.model.manifest import BlueprintTextSource, KnowledgeSource
from turnlog.projections.blueprint.schema.call_specs import MessageFormat
from turnlog.projections.blueprint.schema.layer_specs import RetrievalLayer
from turnlog.projections.prompt.deferred_part import DeferredPart, build_filled, combine_parts
from turnlog.projections.prompt.sources.layer_content import LayerItem, LayerPiece, include_text
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.open_turn import RetrievedEntry, TurnRetrieval
from turnlog.projections.session.rules.steps.retrieval_rules import find_retrieval
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.tool_disclosure import ADAPT_RULE

NOT_RETRIEVED: Final = "not retrieved"
"""The rule of a layer whose retrieval was not made."""

NOTHING_FOUND: Final = "nothing found"
"""The rule of a layer whose retrieval took nothing."""

UNAVAILABLE: Final = "unavailable"
"""The first word of the rule of a layer whose retrieval had no index to search."""


def plan_retrieval_pieces(
    layer: RetrievalLayer, state: SessionState, form: MessageFormat
) -> DeferredPart[tuple[LayerPiece, ...]]:
    """Plan a piece for each entry that was taken, or one that says why there is none."""
    made = find_retrieval(state.open, layer.retrieval)
    if made is None:
        return build_filled((LayerPiece(source=None, full_text="", rule=NOT_RETRIEVED),))
    if not made.entries:
        return build_filled((_build_empty_piece(layer, made, form),))
    return combine_parts(_plan_entry_pieces(layer, made, form))


def _build_empty_piece(
    layer: RetrievalLayer, made: TurnRetrieval, form: MessageFormat
) -> LayerPiece:
    rule = f"{UNAVAILABLE} {made.unavailable}" if made.unavailable else NOTHING_FOUND
    if not layer.nothing:
        return LayerPiece(source=None, full_text="", rule=rule)
    source = BlueprintTextSource(text=layer.nothing)
    return include_text(
        LayerPiece(source=source, full_text=layer.nothing, rule=rule), layer.nothing, form
    )


def _plan_entry_pieces(
    layer: RetrievalLayer, made: TurnRetrieval, form: MessageFormat
) -> Iterator[DeferredPart[LayerPiece]]:
    heading = f"{layer.heading}\n" if layer.heading else ""
    for place, entry in enumerate(made.entries):
        name = f"{entry.collection}/{entry.entry}"
        title = format_entry_heading(place + 1, entry.title, name)
        piece = LayerPiece(
            source=_build_source(made, entry),
            full_text="",
            item=LayerItem(place, name, heading + title),
        )
        yield _plan_entry_piece(piece, entry, form)
        heading = ""


def _plan_entry_piece(
    piece: LayerPiece, entry: RetrievedEntry, form: MessageFormat
) -> DeferredPart[LayerPiece]:
    def build(texts: Sequence[str]) -> LayerPiece:
        (text,) = texts
        whole = LayerPiece(source=piece.source, full_text=text, item=piece.item)
        return include_text(whole, text, form)

    return DeferredPart((entry.digest,), build)


def _build_source(made: TurnRetrieval, entry: RetrievedEntry) -> KnowledgeSource:
    return KnowledgeSource(
        retrieved=made.sequence,
        collection=entry.collection,
        entry=entry.entry,
        revision=entry.revision,
        digest=entry.digest,
        score=entry.score,
        confidence=entry.confidence,
    )


def format_entry_heading(number: int, title: str, name: str) -> str:
    """Return the line above an entry; it is one line, whatever the title contains."""
    return f"[{number}] {' '.join(title.split()) or name}"


def is_confident(material: SessionMaterial, state: SessionState, name: str) -> bool:
    """Return whether the best entry of a retrieval is so similar that it is to be adapted."""
    made = find_retrieval(state.open, name)
    return made is not None and made.confidence > _get_threshold(material, state, name)


def describe_adaptation(
    material: SessionMaterial, state: SessionState, name: str | None
) -> str | None:
    """Return the rule of tools that are only named, with its figures; None if they are not."""
    made = find_retrieval(state.open, name) if name else None
    if made is None or name is None or not is_confident(material, state, name):
        return None
    least = _get_threshold(material, state, name)
    return f"{ADAPT_RULE} {name} {made.confidence:g} > {least:g}"


def _get_threshold(material: SessionMaterial, state: SessionState, name: str) -> float:
    return material.blueprint.resolve_retrieval(name, state.profile).confident_above
