"""Resolve the layers of a message to texts with a source.

A layer without a text leaves no trace in the prompt, but its part in the manifest says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from turnlog.events.model.child_events import ParentInput
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    EventTextSource,
    ParentInputSource,
    PartSource,
    ResolutionSource,
)
from turnlog.projections.blueprint.schema.call_specs import MessageFormat
from turnlog.projections.blueprint.schema.layer_specs import (
    INPUT_LAYER,
    QUERY_COMPONENT,
    AttributeLayer,
    CarryLayer,
    ChoicesLayer,
    FieldsLayer,
    FileLayer,
    InputLayer,
    LayerCondition,
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
    WhenConfident,
    WhenContext,
    WhenPhase,
    WhenUnsure,
)
from turnlog.projections.blueprint.schema.prompt_overrides import (
    find_pinned_file,
    find_user_override,
    get_override_place,
)
from turnlog.projections.blueprint.template_slots import fill_slots, find_slots, format_prompt_value
from turnlog.projections.prompt.assembly_inputs import PromptCall, has_estimated_savings
from turnlog.projections.prompt.deferred_part import (
    DeferredPart,
    TextKey,
    build_filled,
    combine_parts,
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
    list_step_texts,
)
from turnlog.projections.prompt.sources.resolved_references import format_resolved_text
from turnlog.projections.prompt.sources.retrieved_layers import (
    is_confident,
    plan_retrieval_pieces,
)
from turnlog.projections.prompt.sources.segment_layers import build_segment_pieces
from turnlog.projections.prompt.sources.session_material import (
    SessionMaterial,
    find_phase_visibility,
    format_value,
)
from turnlog.projections.prompt.sources.time_slots import list_time_values
from turnlog.projections.prompt.sources.tool_sources import plan_tool_pieces
from turnlog.projections.session.fold.due_notes import is_note_due
from turnlog.projections.session.next_call import has_step_failed
from turnlog.projections.session.pinned_prompts import find_pinned_files
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef

_ASSEMBLER_OF_STAYING_CARRIES: Final = 3
"""The first version of the assembler that includes what was carried into other visible phases."""

EMPTY_RULE: Final = "nothing to say"
"""The rule of a layer whose text is empty."""

DISTIL_RULE: Final = "distil"
"""The rule of a text that condenses a longer tool result."""


SourcedText = tuple[PartSource | None, str]
"""A text and where it comes from."""

NO_TEXT: Final[SourcedText] = (None, "")


@dataclass(frozen=True, slots=True)
class LayerSources:
    """Everything that the text of a layer can come from."""

    material: SessionMaterial
    state: SessionState
    call: PromptCall


def plan_layer(sources: LayerSources, name: str, form: MessageFormat) -> DeferredPart[LayerBlock]:
    """Plan one layer of a message."""
    if name == INPUT_LAYER:
        return _plan_input_piece(sources, form).map(
            lambda piece: LayerBlock(
                layer=INPUT_LAYER, component=QUERY_COMPONENT, keep=True, form=form, pieces=(piece,)
            )
        )
    layer = sources.material.blueprint.layers[name]
    component, keep = layer.component, layer.keep == "always"
    return _plan_pieces(sources, layer, name, form).map(
        lambda pieces: LayerBlock(
            layer=name, component=component, keep=keep, form=form, pieces=pieces
        )
    )


def _plan_pieces(
    sources: LayerSources, layer: LayerSpec, name: str, form: MessageFormat
) -> DeferredPart[tuple[LayerPiece, ...]]:
    rule = f"when {format_condition(layer.when)}" if layer.when else None
    material, state, call = sources.material, sources.state, sources.call
    if layer.when and not is_condition_met(layer.when, material, state, call):
        return build_filled((LayerPiece(source=None, full_text="", rule=rule),))
    if isinstance(layer, ToolsLayer | PromptsLayer):
        planned = plan_tool_pieces(layer, material, state, form)
        return planned.map(
            lambda pieces: pieces or (LayerPiece(source=None, full_text="", rule=EMPTY_RULE),)
        )
    if isinstance(layer, SegmentsLayer):
        segments = build_segment_pieces(layer=layer, name=name, form=form, state=state, call=call)
        planned = build_filled(tuple(segments))
    elif isinstance(layer, StepLayer):
        texts = list_step_texts(layer, material, state)
        planned = combine_parts(
            _plan_text_piece(each.said, sources, form, shorter=each.shorter) for each in texts
        )
    elif isinstance(layer, ResultsLayer):
        planned = combine_parts(_plan_result_pieces(layer, sources, form))
    elif isinstance(layer, RetrievalLayer):
        planned = plan_retrieval_pieces(layer, state, form)
    elif isinstance(layer, CarryLayer):
        planned = combine_parts(
            _plan_text_piece(ref, sources, form) for ref in _list_carried_refs(sources)
        )
    else:
        planned = _plan_source(layer, name, sources).map(
            lambda found: (_build_piece(*found, form),)
        )
    return planned.map(
        lambda pieces: (
            tuple(_add_condition(rule, piece) for piece in pieces)
            or (LayerPiece(source=None, full_text="", rule=EMPTY_RULE),)
        )
    )


def _add_condition(rule: str | None, piece: LayerPiece) -> LayerPiece:
    """Record the condition of a layer on a piece, unless the piece has a rule of its own."""
    return replace(piece, rule=piece.rule or rule) if piece.text else piece


def _build_piece(source: PartSource | None, text: str, form: MessageFormat) -> LayerPiece:
    return (
        include_text(LayerPiece(source=source, full_text=text), text, form)
        if text
        else LayerPiece(source=source, full_text=text, rule=EMPTY_RULE)
    )


def _plan_input_piece(sources: LayerSources, form: MessageFormat) -> DeferredPart[LayerPiece]:
    written = sources.material.blueprint.calls[sources.call.kind].input_from
    source, text = _resolve_input(sources.state, sources.call, written) if written else NO_TEXT
    if text:
        return build_filled(_build_piece(source, text, form))
    ref = sources.state.open.submission.text if sources.state.open else None
    if ref is None:
        return build_filled(LayerPiece(source=None, full_text="", rule="no input"))
    return _plan_text_piece(ref, sources, form)


def _plan_result_pieces(
    layer: ResultsLayer, sources: LayerSources, form: MessageFormat
) -> Iterator[DeferredPart[LayerPiece]]:
    found = find_prior_results(sources.material, sources.state)
    heading = f"{layer.heading}\n" if layer.heading else ""
    for place, (word, result) in enumerate(label_results(found.results)):
        item = LayerItem(place, word, f"{heading}{word}:")
        shorter = (result.brief,) if result.brief else ()
        yield _plan_text_piece(
            ref=result.summary, sources=sources, form=form, item=item, shorter=shorter
        )
        heading = ""
    if not found.results:
        yield build_filled(LayerPiece(source=None, full_text="", rule=found.reason or EMPTY_RULE))


def _list_carried_refs(sources: LayerSources) -> tuple[TextRef, ...]:
    """Return the texts carried into the phases that the current one may see, oldest first."""
    state, call = sources.state, sources.call
    current = (state.carried,) if state.carried else ()
    if call.assembler < _ASSEMBLER_OF_STAYING_CARRIES:
        return current
    visibility = find_phase_visibility(sources.material, state)
    before = (each for each in state.carried_before if visibility.can_show(each.phase))
    return (*(each.text for each in before), *current)


def _plan_text_piece(
    ref: TextRef,
    sources: LayerSources,
    form: MessageFormat,
    item: LayerItem | None = None,
    shorter: Sequence[TextRef] = (),
) -> DeferredPart[LayerPiece]:
    source = EventTextSource(sequence=ref.sequence, field=ref.field)
    full_length = list_condensed_refs(sources.state).get(ref)

    def build(texts: Sequence[str]) -> LayerPiece:
        piece = _build_piece(source, texts[0], form)
        if piece.text and full_length is not None:
            length = full_length if has_estimated_savings(sources.call.assembler) else 0
            piece = replace(piece, treatment="condensed", rule=DISTIL_RULE, full_length=length)
        others = tuple(
            LayerPiece(
                source=EventTextSource(sequence=other.sequence, field=other.field),
                full_text=text,
                item=item,
            )
            for other, text in zip(shorter, texts[1:], strict=True)
        )
        return replace(piece, item=item, shorter=others) if item or others else piece

    return DeferredPart((ref, *shorter), build)


def _plan_source(layer: LayerSpec, name: str, sources: LayerSources) -> DeferredPart[SourcedText]:
    """Plan the text of a layer that has one source."""
    state = sources.state
    match layer:
        case OverrideLayer(override=spec) if own := _find_own_text(sources, spec):
            return _plan_sourced_text(own.digest, own)
        case FileLayer() | OverrideLayer() | SourceLayer():
            pinned = find_pinned_files(state.prompts, sources.call.provider) or {}
            file = find_pinned_file(pinned, name, state.profile)
            if file is None:
                return build_filled(NO_TEXT)
            return _plan_sourced_text(file.digest, BlobSource(digest=file.digest, path=file.path))
        case ResolvedLayer():
            return _plan_resolved_text(layer, state)
        case _:
            return build_filled(_resolve_known_text(layer, sources))


def _find_own_text(sources: LayerSources, spec: OverrideSpec) -> BlobSource | None:
    """Return the text that the user who asks has in place of a prompt file, or None."""
    state = sources.state
    asked = state.open.submission if state.open else None
    if asked is None or not asked.overrides:
        return None
    own = find_user_override(asked.overrides, spec, state.profile, sources.call.provider)
    if own is None:
        return None
    path = get_override_place(own).path
    return BlobSource(
        digest=own.digest,
        path=path,
        user=asked.user,
        version=own.version,
        sealed_in=own.sealed_in,
    )


def _plan_sourced_text(key: TextKey, source: PartSource) -> DeferredPart[SourcedText]:
    return DeferredPart((key,), lambda texts: (source, texts[0]))


def _resolve_known_text(layer: LayerSpec, sources: LayerSources) -> SourcedText:
    """Return the text of a layer that nothing is fetched for."""
    material, state, call = sources.material, sources.state, sources.call
    match layer:
        case TextLayer(text=text):
            of = tuple(f"attributes.{slot}" for slot in find_slots(text))
            return _build_literal(fill_slots(text, state.attributes), of)
        case NowLayer(now=text):
            values = list_time_values(state.open.released_at if state.open else call.at)
            return _build_literal(fill_slots(text, values), ("turn.time",))
        case AttributeLayer(attribute=attribute):
            source = EventTextSource(sequence=state.attributes_in, field=f"attributes.{attribute}")
            return source, format_prompt_value(state.attributes.get(attribute))
        case InputLayer(input=name):
            return _resolve_input(state, call, name)
        case FieldsLayer(heading=heading, fields=fields):
            formatted = [
                (label, format_value(material.resolve_path(p, state)))
                for label, p in fields.items()
            ]
            lines = [f"{label}: {value}" for label, value in formatted if value]
            return _build_literal(
                "\n".join(filter(None, (heading, *lines))), tuple(fields.values())
            )
        case ChoicesLayer(heading=heading):
            visibility = find_phase_visibility(material, state)
            visible_choices = (each for each in state.choices if visibility.can_show(each.phase))
            labels = [each.label for each in visible_choices if each.label]
            text = "\n".join(filter(None, (heading, *labels))) if labels else ""
            return _build_literal(text, ("session.choices",))
        case _:
            raise TypeError(layer)


def _resolve_input(state: SessionState, call: PromptCall, name: str) -> SourcedText:
    """Return an input of the turn; its event is known only while the turn is open."""
    submission = state.open.submission if state.open else None
    if submission is None or submission.inputs is None or name not in call.inputs:
        return NO_TEXT
    text, sequence = format_prompt_value(call.inputs[name]), submission.inputs.sequence
    for handed in submission.parent_inputs:
        if handed.name == name:
            return _build_parent_input_source(handed, sequence), text
    return EventTextSource(sequence=sequence, field=f"inputs.{name}"), text


def _build_parent_input_source(handed: ParentInput, sequence: int) -> ParentInputSource:
    return ParentInputSource(
        handed=sequence,
        input=handed.name,
        session=handed.session,
        turn=handed.turn,
        digest=handed.digest,
    )


def _plan_resolved_text(layer: ResolvedLayer, state: SessionState) -> DeferredPart[SourcedText]:
    resolution = state.open.resolved if state.open else None
    if resolution is None:
        return build_filled(NO_TEXT)
    source = ResolutionSource(
        resolution=resolution.results.sequence,
        heading=layer.heading,
        lines=dict[str, str](layer.resolved),
    )
    return DeferredPart(
        (resolution.results,),
        lambda texts: (
            source,
            format_resolved_text(layer.heading, layer.resolved, resolution, texts[0]),
        ),
    )


def _build_literal(text: str, of: tuple[str, ...]) -> tuple[PartSource, str]:
    return BlueprintTextSource(text=text, of=of), text


def is_condition_met(
    when: LayerCondition, material: SessionMaterial, state: SessionState, call: PromptCall
) -> bool:
    """Return whether a layer's condition is met in the next call."""
    match when:
        case "first_turn":
            first_turn = call.inputs.get("first_turn")
            return first_turn if isinstance(first_turn, bool) else state.completed == 0
        case "step_failed":
            return call.is_foreseen or has_step_failed(state.open)
        case "reply_redacted":
            return is_note_due(state.note, state)
        case "text_redacted":
            return is_note_due(state.text_note, state)
        case WhenContext(context=level):
            return level in material.context_levels
        case WhenAttribute(attribute=attribute):
            return bool(state.attributes.get(attribute))
        case WhenPhase(phase=phase):
            return state.phase == phase
        case WhenConfident(confident=name):
            return is_confident(material, state, name)
        case WhenUnsure(unsure=name):
            return not is_confident(material, state, name)
        case _ as never:
            assert_never(never)


def format_condition(when: LayerCondition) -> str:
    """Return a condition as the manifest spells it."""
    match when:
        case WhenContext(context=level):
            return f"context {level}"
        case WhenAttribute(attribute=attribute):
            return f"attribute {attribute}"
        case WhenPhase(phase=phase):
            return f"phase {phase}"
        case WhenConfident(confident=name):
            return f"confident {name}"
        case WhenUnsure(unsure=name):
            return f"unsure {name}"
        case _:
            return when
