"""The tool rounds of a turn: each answer that called tools, and the results of these tools.

They follow the messages of a call whose program is `loop`, as pairs that no ladder separates: every
tool call is answered by one message. A ladder may shorten a result and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from turnlog.events.model.manifest import EventTextSource, TextExcerpt, TextTruncation
from turnlog.projections.blueprint.bounded_json import parse_recorded_arguments
from turnlog.projections.blueprint.schema.call_specs import DEFAULT_MESSAGE_FORMAT
from turnlog.projections.blueprint.schema.layer_specs import (
    ROUNDS_COMPONENT,
    TOOL_CALLS_LAYER,
    TOOL_RESULTS_LAYER,
)
from turnlog.projections.prompt.deferred_part import DeferredPart
from turnlog.projections.prompt.prompt_plan import PlannedMessage, PlannedToolCall
from turnlog.projections.prompt.sources.layer_content import LayerBlock, LayerPiece, include_text
from turnlog.projections.prompt.sources.layer_sources import DISTIL_RULE
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.next_call import ToolRound, list_tool_rounds
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.tool_uses import ToolResultRef, ToolUse
from turnlog.projections.tools.result_condensation import find_result_start


def plan_tool_rounds(
    material: SessionMaterial, state: SessionState, kind: str
) -> tuple[DeferredPart[PlannedMessage], ...]:
    """Plan the messages of the open turn's tool rounds; none for a call that writes queries."""
    profile = material.blueprint.profiles.get(state.profile)
    if profile is None or not profile.has_rounds or kind != material.find_call_kind(state):
        return ()
    if state.open is not None and state.open.querying is not None:
        return ()
    rounds = list_tool_rounds(state.open)
    return tuple(message for each in rounds for message in _plan_round(each))


def _plan_round(tool_round: ToolRound) -> Iterator[DeferredPart[PlannedMessage]]:
    yield _plan_calls_message(tool_round)
    for use in tool_round.tools:
        if use.result is not None:
            yield _plan_result_message(use, use.result)


def _plan_calls_message(tool_round: ToolRound) -> DeferredPart[PlannedMessage]:
    said, tools = tool_round.answer.said, tool_round.tools
    said_refs = (said,) if said and said.characters else ()

    def build(texts: Sequence[str]) -> PlannedMessage:
        pieces = tuple(
            include_text(
                LayerPiece(source=_build_source(ref), full_text=text), text, DEFAULT_MESSAGE_FORMAT
            )
            for ref, text in zip(said_refs, texts[: len(said_refs)], strict=True)
        )
        calls = map(_build_tool_call, tools, texts[len(said_refs) :])
        block = _build_block(TOOL_CALLS_LAYER, pieces)
        return PlannedMessage(
            role="assistant", form=DEFAULT_MESSAGE_FORMAT, blocks=(block,), tool_calls=tuple(calls)
        )

    return DeferredPart((*said_refs, *(use.asked for use in tools)), build)


def _build_tool_call(use: ToolUse, written: str) -> PlannedToolCall:
    is_object = parse_recorded_arguments(written) is not None
    return PlannedToolCall(
        source=_build_source(use.asked),
        id=use.id,
        tool=use.alias or use.tool,
        arguments=written if is_object else "",
        cut=None if is_object else TextTruncation(of=len(written), to=0),
    )


def _plan_result_message(use: ToolUse, result: ToolResultRef) -> DeferredPart[PlannedMessage]:
    said, shorter = result.said, result.shorter_refs

    def build(texts: Sequence[str]) -> PlannedMessage:
        arguments, text, *others = texts
        piece = _build_result_piece(use, said, text, arguments)
        piece = include_text(piece, piece.full_text, DEFAULT_MESSAGE_FORMAT)
        if result.distilled:
            piece = replace(piece, treatment="condensed", rule=DISTIL_RULE)
        pairs = zip(shorter, others, strict=True)
        shorter_pieces = (_build_result_piece(use, ref, other, arguments) for ref, other in pairs)
        block = _build_block(TOOL_RESULTS_LAYER, (replace(piece, shorter=tuple(shorter_pieces)),))
        return PlannedMessage(
            role="tool", form=DEFAULT_MESSAGE_FORMAT, blocks=(block,), tool_call_id=use.id
        )

    return DeferredPart((use.asked, said, *shorter), build)


def _build_result_piece(use: ToolUse, ref: TextRef, text: str, arguments: str) -> LayerPiece:
    """Return a result without the line that repeats its call, which is another message."""
    start = find_result_start(use.tool, arguments, text)
    excerpt = TextExcerpt(begin=start, end=len(text)) if start else None
    return LayerPiece(source=_build_source(ref), full_text=text[start:], excerpt=excerpt)


def _build_source(ref: TextRef) -> EventTextSource:
    return EventTextSource(sequence=ref.sequence, field=ref.field)


def _build_block(layer: str, pieces: tuple[LayerPiece, ...]) -> LayerBlock:
    form = DEFAULT_MESSAGE_FORMAT
    return LayerBlock(layer=layer, component=ROUNDS_COMPONENT, keep=True, form=form, pieces=pieces)
