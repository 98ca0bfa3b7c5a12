"""The tool rounds of a turn: each answer that called tools, and the results of these tools.

They follow the messages of a call whose program is `loop`, as pairs that no ladder separates: every
tool call is answered by one message. A ladder may shorten results, and the arguments of all rounds
but the latest. What the model reasoned before it called the tools goes with its answer, as long as
the same model is asked again: many providers refuse the calls without it, and no other model can
read it. A server that refuses calls without it gets a blank then. Arguments that are signed stay
whole, since the signature may be of them.

The pictures of a result are in its message, or, where a server takes none there, in a message of
the user after the results of the round, which names the call. What a server takes nowhere, and
recordings and files of a result, are on record, and a line of the result's text names each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from turnlog.events.model.manifest import (
    EventTextSource,
    TextExcerpt,
    TextTruncation,
    ToolNameRule,
)
from turnlog.projections.blueprint.bounded_json import parse_recorded_arguments
from turnlog.projections.blueprint.schema.call_specs import DEFAULT_MESSAGE_FORMAT
from turnlog.projections.blueprint.schema.layer_specs import (
    ROUNDS_COMPONENT,
    TOOL_CALLS_LAYER,
    TOOL_RESULTS_LAYER,
)
from turnlog.projections.prompt.assembly_inputs import PromptCall
from turnlog.projections.prompt.deferred_part import DeferredPart
from turnlog.projections.prompt.planned_media import PlannedMedia, plan_media
from turnlog.projections.prompt.planned_reasoning import (
    PlannedReasoning,
    plan_blank_reasoning,
    plan_reasoning,
)
from turnlog.projections.prompt.prompt_plan import (
    PlannedMessage,
    PlannedToolCall,
)
from turnlog.projections.prompt.sources.layer_content import (
    LayerBlock,
    LayerItem,
    LayerPiece,
    include_text,
)
from turnlog.projections.prompt.sources.layer_sources import DISTIL_RULE
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.next_call import ToolRound, list_tool_rounds
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import TextRef
from turnlog.projections.session.tool_uses import ToolResultRef, ToolUse
from turnlog.projections.tools.result_condensation import find_result_start
from turnlog.projections.tools.tool_aliases import choose_sent_name

NO_OBJECT_RULE: Final = "no JSON object"
"""The rule of arguments that providers do not take."""


def plan_tool_rounds(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> tuple[DeferredPart[PlannedMessage], ...]:
    """Plan the messages of the open turn's tool rounds; none for a call that writes queries."""
    profile = material.blueprint.profiles.get(state.profile)
    if profile is None or not profile.has_rounds or call.kind != material.find_call_kind(state):
        return ()
    if state.open is not None and state.open.querying is not None:
        return ()
    rounds = list_tool_rounds(state.open)
    return tuple(
        message
        for each in rounds
        for message in _plan_round(each, call, is_latest=each is rounds[-1])
    )


def _plan_round(
    tool_round: ToolRound, call: PromptCall, *, is_latest: bool
) -> Iterator[DeferredPart[PlannedMessage]]:
    yield _plan_calls_message(tool_round, call, is_latest=is_latest)
    separate: list[DeferredPart[PlannedMessage]] = []
    for use in tool_round.tools:
        if use.result is None:
            continue
        has_pictures = call.dialect.images and call.dialect.tool_pictures != "none"
        pictures = _plan_pictures(use.result, call.model) if has_pictures else ()
        if pictures and call.dialect.tool_pictures == "user":
            named = choose_sent_name(call.dialect.tool_names, use.tool, use.alias)
            separate.append(_plan_pictures_message(use, use.result, pictures, named))
            pictures = ()
        yield _plan_result_message(use, use.result, pictures)
    yield from separate


def _plan_pictures(result: ToolResultRef, model: str) -> tuple[PlannedMedia, ...]:
    return plan_media((each for each in result.media if each.part.kind == "image"), model)


def _plan_pictures_message(
    use: ToolUse, result: ToolResultRef, pictures: tuple[PlannedMedia, ...], named: str
) -> DeferredPart[PlannedMessage]:
    """Plan a message of the user with the pictures of a result; it names the tool and its call."""
    heading = f"Pictures in the result of {named}, called as:"
    piece = LayerPiece(
        source=EventTextSource(sequence=result.said.sequence, field="id"),
        full_text=use.id,
        item=LayerItem(place=0, name=use.tool, heading=heading),
    )
    block = _build_block(TOOL_RESULTS_LAYER, (include_text(piece, use.id, DEFAULT_MESSAGE_FORMAT),))
    message = PlannedMessage(
        role="user", form=DEFAULT_MESSAGE_FORMAT, blocks=(block,), media=pictures
    )
    return DeferredPart((), lambda _: message)


def _plan_calls_message(
    tool_round: ToolRound, call: PromptCall, *, is_latest: bool
) -> DeferredPart[PlannedMessage]:
    answer, tools = tool_round.answer, tool_round.tools
    said_refs = (answer.said,) if answer.said and answer.said.characters else ()
    reasoned = (answer.reasoning, *(use.signature for use in tools))
    reasoning_refs = tuple(ref for ref in reasoned if ref)
    is_same_model = answer.model == call.model

    def build(texts: Sequence[str]) -> PlannedMessage:
        end = len(texts) - len(reasoning_refs)
        texts, rest = texts[:end], texts[end:]
        planned = {
            ref: plan_reasoning(ref, text, is_same_model=is_same_model)
            for ref, text in zip(reasoning_refs, rest, strict=True)
        }
        pieces = tuple(
            include_text(
                LayerPiece(source=_build_source(ref), full_text=text), text, DEFAULT_MESSAGE_FORMAT
            )
            for ref, text in zip(said_refs, texts[: len(said_refs)], strict=True)
        )
        signatures = (planned[use.signature] if use.signature else None for use in tools)
        build_call = partial(_build_tool_call, names=call.dialect.tool_names, is_latest=is_latest)
        calls = map(build_call, tools, texts[len(said_refs) :], signatures)
        block = _build_block(TOOL_CALLS_LAYER, pieces)
        reasoning = planned[answer.reasoning] if answer.reasoning else None
        is_missing = reasoning is None or not reasoning.text
        needs_blank = is_missing and call.dialect.call_reasoning == "required"
        return PlannedMessage(
            role="assistant",
            form=DEFAULT_MESSAGE_FORMAT,
            blocks=(block,),
            tool_calls=tuple(calls),
            reasoning=reasoning,
            blank_reasoning=plan_blank_reasoning() if needs_blank else None,
        )

    return DeferredPart((*said_refs, *(use.asked for use in tools), *reasoning_refs), build)


def _build_tool_call(
    use: ToolUse,
    written: str,
    signature: PlannedReasoning | None,
    *,
    names: ToolNameRule | None,
    is_latest: bool,
) -> PlannedToolCall:
    known, sent = use.alias or use.tool, choose_sent_name(names, use.tool, use.alias)
    is_object = parse_recorded_arguments(written) is not None
    return PlannedToolCall(
        source=_build_source(use.asked),
        id=use.id,
        tool=sent,
        arguments=written if is_object else "",
        cut=None if is_object else TextTruncation(of=len(written), to=0),
        signature=signature,
        written=written,
        can_condense=is_object and signature is None and not is_latest,
        rule=None if is_object else NO_OBJECT_RULE,
        is_renamed=sent != known,
    )


def _plan_result_message(
    use: ToolUse, result: ToolResultRef, pictures: tuple[PlannedMedia, ...]
) -> DeferredPart[PlannedMessage]:
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
            role="tool",
            form=DEFAULT_MESSAGE_FORMAT,
            blocks=(block,),
            tool_call_id=use.id,
            media=pictures,
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
