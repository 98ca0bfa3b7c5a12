"""Resolve the layers of a message to texts with a source.

A layer without a text leaves no trace in the prompt, but its part in the manifest says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar, assert_never

from turnlog.events.errors import Corrupt
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    EventTextSource,
    PartSource,
    ResolutionSource,
)
from turnlog.projections.blueprint.schema.call_specs import MessageFormat
from turnlog.projections.blueprint.schema.layer_specs import (
    AttributeLayer,
    CarryLayer,
    ChoicesLayer,
    FieldsLayer,
    FileLayer,
    InputLayer,
    LayerCondition,
    LayerSpec,
    OverrideLayer,
    PromptsLayer,
    ResolvedLayer,
    ResultsLayer,
    SegmentsLayer,
    SourceLayer,
    StepLayer,
    TextLayer,
    ToolsLayer,
    WhenAttribute,
    WhenContext,
    WhenPhase,
)
from turnlog.projections.blueprint.schema.prompt_overrides import find_pinned_file
from turnlog.projections.blueprint.template_slots import fill_slots, find_slots, format_prompt_value
from turnlog.projections.prompt.assembly_inputs import PromptCall, PromptTexts
from turnlog.projections.prompt.session_material import (
    SessionMaterial,
    find_phase_visibility,
    format_value,
)
from turnlog.projections.prompt.sources.layer_content import (
    LayerBlock,
    LayerItem,
    LayerPiece,
    include_text,
)
from turnlog.projections.prompt.sources.prior_results import (
    find_prior_results,
    label_results,
    list_condensed_refs,
    list_step_refs,
)
from turnlog.projections.prompt.sources.resolved_references import format_resolved_text
from turnlog.projections.prompt.sources.segment_layers import build_segment_pieces
from turnlog.projections.prompt.sources.tool_sources import build_tool_pieces
from turnlog.projections.session.program import has_step_failed
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef

INPUT_LAYER: Final = "input"
"""The built-in layer that holds the text of the turn."""

EMPTY_RULE: Final = "nothing to say"
"""The rule of a layer whose text is empty."""

DISTIL_RULE: Final = "distil"
"""The rule of a text that condenses a longer tool result."""


"""Why a layer whose text is empty is left out."""


Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class LayerSources:
    """Everything that the text of a layer can come from."""

    material: SessionMaterial
    state: SessionState
    call: PromptCall
    texts: PromptTexts


def resolve_layer(sources: LayerSources, name: str, form: MessageFormat) -> LayerBlock:
    """Resolve one layer; raises `Corrupt` if a text that it needs was not fetched."""
    if name == INPUT_LAYER:
        return LayerBlock(INPUT_LAYER, "query", True, form, (_build_input_piece(sources, form),))  # noqa: FBT003
    layer = sources.material.blueprint.layers[name]
    keep = layer.keep == "always"
    return LayerBlock(
        name, layer.component, keep, form, _resolve_pieces(sources, layer, name, form)
    )


def _resolve_pieces(
    sources: LayerSources, layer: LayerSpec, name: str, form: MessageFormat
) -> tuple[LayerPiece, ...]:
    rule = f"when {format_condition(layer.when)}" if layer.when else None
    material, state, call = sources.material, sources.state, sources.call
    if layer.when and not is_condition_met(layer.when, material, state, call):
        return (LayerPiece(None, "", rule=rule),)
    if isinstance(layer, SegmentsLayer):
        found = build_segment_pieces(layer, name, form, state, call)
        return tuple(_add_condition(rule, piece) for piece in found) or (
            LayerPiece(None, "", rule=EMPTY_RULE),
        )
    if isinstance(layer, StepLayer):
        said = [
            _build_text_piece(each, sources, name, form)
            for each in list_step_refs(layer, material, state)
        ]
        return tuple(_add_condition(rule, piece) for piece in said) or (
            LayerPiece(None, "", rule=EMPTY_RULE),
        )
    if isinstance(layer, ResultsLayer):
        return tuple(
            _add_condition(rule, piece)
            for piece in _build_result_pieces(layer, sources, name, form)
        )
    if isinstance(layer, ToolsLayer | PromptsLayer):
        return build_tool_pieces(layer, material, state, sources.texts.blobs, form) or (
            LayerPiece(None, "", rule=EMPTY_RULE),
        )
    source, text = _resolve_source(layer, name, sources)
    return (_add_condition(rule, _build_piece(source, text, form)),)


def _add_condition(rule: str | None, piece: LayerPiece) -> LayerPiece:
    """Record the condition of a layer on a piece, unless the piece has a rule of its own."""
    return replace(piece, rule=piece.rule or rule) if piece.text else piece


def _build_piece(source: PartSource | None, text: str, form: MessageFormat) -> LayerPiece:
    return (
        include_text(LayerPiece(source, text), text, form)
        if text
        else LayerPiece(source, text, rule=EMPTY_RULE)
    )


def _build_input_piece(sources: LayerSources, form: MessageFormat) -> LayerPiece:
    said = sources.state.open.text if sources.state.open else None
    if said is None:
        return LayerPiece(None, "", rule="no input")
    return _build_text_piece(said, sources, INPUT_LAYER, form)


def _build_result_pieces(
    layer: ResultsLayer, sources: LayerSources, name: str, form: MessageFormat
) -> Iterator[LayerPiece]:
    found = find_prior_results(sources.material, sources.state)
    heading = f"{layer.heading}\n" if layer.heading else ""
    for place, (word, given) in enumerate(label_results(found.results)):
        piece = _build_text_piece(given.summary, sources, name, form)
        yield replace(piece, item=LayerItem(place, word, f"{heading}{word}:"))
        heading = ""
    if not found.results:
        yield LayerPiece(None, "", rule=found.reason or EMPTY_RULE)


def _build_text_piece(
    said: TextRef, sources: LayerSources, layer: str, form: MessageFormat
) -> LayerPiece:
    source = EventTextSource(sequence=said.sequence, field=said.field)
    piece = _build_piece(source, _get_text(sources.texts.by_ref, said, layer), form)
    if piece.text and said in list_condensed_refs(sources.state):
        return replace(piece, treatment="condensed", rule=DISTIL_RULE)
    return piece


def _resolve_source(
    layer: LayerSpec, name: str, sources: LayerSources
) -> tuple[PartSource | None, str]:
    material, state, call = sources.material, sources.state, sources.call
    match layer:
        case FileLayer() | OverrideLayer() | SourceLayer():
            file = find_pinned_file(state.prompts.get(call.provider, {}), name, state.profile)
            if file is None:
                return None, ""
            text = _get_text(sources.texts.blobs, file.digest, name)
            return BlobSource(digest=file.digest, path=file.path), text
        case TextLayer(text=text):
            of = tuple(f"attributes.{slot}" for slot in find_slots(text))
            return _build_literal(fill_slots(text, state.attributes), of)
        case AttributeLayer(attribute=attribute):
            source = EventTextSource(sequence=state.attributes_in, field=f"attributes.{attribute}")
            return source, format_prompt_value(state.attributes.get(attribute))
        case InputLayer(input=name):
            return _resolve_input(state, call, name)
        case FieldsLayer(heading=heading, fields=fields):
            spelled = [
                (label, format_value(material.resolve_path(p, state)))
                for label, p in fields.items()
            ]
            lines = [f"{label}: {value}" for label, value in spelled if value]
            return _build_literal(
                "\n".join(filter(None, (heading, *lines))), tuple(fields.values())
            )
        case CarryLayer():
            carried = state.carried
            if carried is None:
                return None, ""
            told = _get_text(sources.texts.by_ref, carried, name)
            return EventTextSource(sequence=carried.sequence, field=carried.field), told
        case ChoicesLayer(heading=heading):
            seen = find_phase_visibility(material, state)
            made = (each for each in state.choices if seen.can_show(each.phase))
            labels = [each.label for each in made if each.label]
            text = "\n".join(filter(None, (heading, *labels))) if labels else ""
            return _build_literal(text, ("session.choices",))
        case ResolvedLayer():
            return _resolve_reference(layer, name, state, sources.texts)
        case SegmentsLayer() | StepLayer() | ResultsLayer() | ToolsLayer() | PromptsLayer():
            raise TypeError(name)
        case _ as never:
            assert_never(never)


def _resolve_input(
    state: SessionState, call: PromptCall, name: str
) -> tuple[PartSource | None, str]:
    """Return an input of the turn; its event is known only while the turn is open."""
    given = state.open.inputs if state.open else None
    if given is None or name not in call.inputs:
        return None, ""
    return EventTextSource(sequence=given.sequence, field=f"inputs.{name}"), format_prompt_value(
        call.inputs[name]
    )


def _resolve_reference(
    layer: ResolvedLayer, name: str, state: SessionState, texts: PromptTexts
) -> tuple[PartSource | None, str]:
    said = state.open.resolved if state.open else None
    if said is None:
        return None, ""
    results = _get_text(texts.by_ref, said.results, name)
    text = format_resolved_text(layer.heading, layer.resolved, said, results)
    lines = dict[str, str](layer.resolved)
    source = ResolutionSource(resolution=said.results.sequence, heading=layer.heading, lines=lines)
    return source, text


def _build_literal(text: str, of: tuple[str, ...]) -> tuple[PartSource, str]:
    return BlueprintTextSource(text=text, of=of), text


def _get_text(texts: Mapping[Key, str], key: Key, layer: str) -> str:
    text = texts.get(key)
    if text is None:
        raise Corrupt(f"layer {layer}", f"the text of {key} was not fetched")
    return text


def is_condition_met(
    when: LayerCondition, material: SessionMaterial, state: SessionState, call: PromptCall
) -> bool:
    """Return whether a layer's condition is met in the next call."""
    match when:
        case "first_turn":
            said = call.inputs.get("first_turn")
            return said if isinstance(said, bool) else state.completed == 0
        case "step_failed":
            return has_step_failed(state.open)
        case "reply_redacted":
            return _is_note_due(state)
        case WhenContext(context=level):
            return level in material.context_levels
        case WhenAttribute(attribute=attribute):
            return bool(state.attributes.get(attribute))
        case WhenPhase(phase=phase):
            return state.phase == phase
        case _ as never:
            assert_never(never)


def _is_note_due(state: SessionState) -> bool:
    """Return whether the redaction note belongs in this turn.

    The note is for the first turn that carries it, in all attempts at that turn.
    """
    turn = state.open.turn if state.open else state.submitted + 1
    return state.note is not None and state.note.told in {None, turn}


def format_condition(when: LayerCondition) -> str:
    """Return a condition as the manifest spells it."""
    match when:
        case WhenContext(context=level):
            return f"context {level}"
        case WhenAttribute(attribute=attribute):
            return f"attribute {attribute}"
        case WhenPhase(phase=phase):
            return f"phase {phase}"
        case _:
            return when
