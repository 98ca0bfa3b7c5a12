"""Render a plan as messages, and each of its pieces as a part of the manifest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from turnlog.events.content import compute_digest
from turnlog.events.model.manifest import (
    EventTextSource,
    HistorySource,
    PartTreatment,
    PromptPart,
    ResolutionSource,
)
from turnlog.projections.blueprint.schema.call_specs import LAYER_SEPARATOR
from turnlog.projections.blueprint.schema.layer_specs import (
    HISTORY_COMPONENT,
    REASONING_COMPONENT,
    REASONING_LAYER,
    ROUNDS_COMPONENT,
    TOOL_CALLS_LAYER,
)
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.prompt.history.excluded_turns import (
    OUT_OF_REACH,
    SUMMARISED,
    ExcludedTurns,
)
from turnlog.projections.prompt.history.history_condenser import DUPLICATES_RULE
from turnlog.projections.prompt.history.planned_history import PlannedHistory, SummaryMessage
from turnlog.projections.prompt.history.turn_messages import TurnExchange, compute_run_digest
from turnlog.projections.prompt.planned_media import insert_media_parts
from turnlog.projections.prompt.prompt_plan import (
    PlacedPiece,
    PlannedMessage,
    PlannedReasoning,
    PromptPlan,
    iterate_media,
    place_media,
    place_pieces,
)
from turnlog.projections.prompt.sources.layer_content import LayerBlock, LayerPiece

_SOURCES_WITHOUT_DIGEST: Final = (EventTextSource, ResolutionSource)
"""Sources that do not hold the digest of their text."""

_TREATMENTS: Final[dict[str, PartTreatment]] = {
    "drop_oldest_pairs": "dropped",
    OUT_OF_REACH: "dropped",
    DUPLICATES_RULE: "condensed",
    SUMMARISED: "summarised",
}
"""The treatment of turns that are excluded by a rule; any other rule means `absent`."""


def render_plan(
    plan: PromptPlan, counting: TokenCounter, *, joins_summaries: bool
) -> tuple[tuple[ChatMessage, ...], tuple[PromptPart, ...]]:
    """Return the messages of a plan and its parts in order, excluded parts as well.

    With `joins_summaries`, a summary right after the first system message is part of it.
    """
    messages: list[ChatMessage] = []
    parts: list[PromptPart] = []
    for slot in plan:
        if isinstance(slot, PlannedHistory):
            joint = _add_summary(slot, messages, joins=joins_summaries)
            parts += _build_history_parts(slot, len(messages), joint)
            messages += [each for exchange in slot.exchanges for each in exchange.messages]
        else:
            if slot.reasoning:
                parts.append(_build_reasoning_part(slot.reasoning, len(messages), counting))
            placed_texts = [(placed, placed.text) for placed in place_pieces(slot)]
            parts += _build_layer_parts(slot, placed_texts, len(messages), counting)
            parts += _build_tool_call_parts(slot, len(messages), counting)
            text = "".join([text for _, text in placed_texts])
            if text or slot.tool_calls or slot.tool_call_id is not None or slot.media:
                calls = tuple(each.request for each in slot.tool_calls)
                media = place_media(slot, placed_texts) if slot.media else ()
                messages.append(
                    ChatMessage(
                        role=slot.role,
                        content=text,
                        tool_calls=calls,
                        tool_call_id=slot.tool_call_id,
                        media=media,
                        reasoning=slot.reasoning.text if slot.reasoning else "",
                    )
                )
    return tuple(messages), insert_media_parts(parts, messages, iterate_media(plan))


def _add_summary(slot: PlannedHistory, messages: list[ChatMessage], *, joins: bool) -> str:
    """Add the summary of a history, if it has one, as a message or to the system message before it.

    Returns what separates it from the text before it. A budget is fitted before, so the separator
    counts as no token.
    """
    if slot.included_summary is None:
        return ""
    text = slot.included_summary.text
    if not joins or [each.role for each in messages] != ["system"]:
        messages.append(ChatMessage("system", text))
        return ""
    messages[0] = ChatMessage("system", messages[0].content + LAYER_SEPARATOR + text)
    return LAYER_SEPARATOR


def _build_tool_call_parts(
    slot: PlannedMessage, place: int, counting: TokenCounter
) -> Iterator[PromptPart]:
    for each in slot.tool_calls:
        yield PromptPart(
            layer=TOOL_CALLS_LAYER,
            component=ROUNDS_COMPONENT,
            item=each.tool,
            source=each.source,
            cut=each.cut,
            message=place,
            role="tool_call",
            digest=compute_digest(each.arguments),
            characters=len(each.text),
            tokens=counting.count_tokens(each.text),
            treatment="trimmed" if each.cut else "kept",
            rule="no JSON object" if each.cut else None,
        )
        if each.signature:
            yield _build_reasoning_part(each.signature, place, counting, item=each.tool)


def _build_reasoning_part(
    planned: PlannedReasoning, place: int, counting: TokenCounter, item: str | None = None
) -> PromptPart:
    part = PromptPart(
        layer=REASONING_LAYER,
        component=REASONING_COMPONENT,
        item=item,
        source=planned.source,
        treatment="dropped",
        rule=planned.rule,
    )
    if not planned.text:
        return part
    included = {
        "message": place,
        "role": "reasoning",
        "digest": compute_digest(planned.text),
        "characters": len(planned.text),
        "tokens": counting.count_tokens(planned.text),
        "treatment": "kept",
    }
    return part.model_copy(update=included)


def _build_layer_parts(
    slot: PlannedMessage,
    placed_texts: Sequence[tuple[PlacedPiece, str]],
    place: int,
    counting: TokenCounter,
) -> Iterator[PromptPart]:
    tokens = counting.count_shares([text for _, text in placed_texts])
    included_parts = {
        id(placed.piece): _build_included_part(
            slot=slot,
            placed=placed,
            place=place,
            characters=len(text),
            tokens=share,
            counting=counting,
        )
        for (placed, text), share in zip(placed_texts, tokens, strict=True)
    }
    for block in slot.blocks:
        for piece in block.pieces:
            yield included_parts.get(id(piece)) or _build_excluded_part(block, piece)


def _build_included_part(
    slot: PlannedMessage,
    placed: PlacedPiece,
    place: int,
    characters: int,
    tokens: int,
    counting: TokenCounter,
) -> PromptPart:
    piece = placed.piece
    return PromptPart(
        layer=placed.block.layer,
        component=placed.block.component,
        item=piece.item.name if piece.item else None,
        source=piece.source,
        before=placed.before,
        after=placed.after,
        excerpt=piece.excerpt,
        cut=piece.cut,
        indented=piece.indented,
        message=place,
        role=slot.role,
        digest=compute_digest(piece.text)
        if isinstance(piece.source, _SOURCES_WITHOUT_DIGEST)
        else None,
        characters=characters,
        tokens=tokens,
        saved=_count_saved_tokens(placed, counting) if piece.treatment == "condensed" else 0,
        treatment=piece.treatment,
        rule=piece.rule,
    )


def _count_saved_tokens(placed: PlacedPiece, counting: TokenCounter) -> int:
    """Count the tokens that a condensed text saves in its layer, or in place of a tool result."""
    if full_length := placed.piece.full_length:
        full_tokens = counting.estimate_tokens(full_length)
        return max(0, full_tokens - counting.count_tokens(placed.piece.text))
    emptied = (
        each for each in placed.block.pieces if each.treatment == "condensed" and not each.text
    )
    longer = sum(counting.count_tokens(each.full_text) for each in emptied)
    return max(0, longer - counting.count_tokens(placed.piece.text))


def _build_excluded_part(block: LayerBlock, piece: LayerPiece) -> PromptPart:
    return PromptPart(
        layer=block.layer,
        component=block.component,
        item=piece.item.name if piece.item else None,
        source=piece.source,
        cut=piece.cut,
        treatment=piece.treatment,
        rule=piece.rule,
    )


def _build_history_parts(slot: PlannedHistory, place: int, joint: str) -> list[PromptPart]:
    """Return the summary, runs and gaps in the order of their turns.

    `place` is that of the first message of a turn, and `joint` is the text before the summary.
    """
    summary_parts = [_build_summary_part(slot.summary, place - 1, joint)] if slot.summary else []
    parts: list[tuple[int, PromptPart]] = [
        (out.first, _build_gap_part(slot.view, out)) for out in slot.left_out
    ]
    numbered = enumerate(slot.exchanges)
    for _, run in groupby(
        numbered, key=lambda item: (item[1].turn - item[0], item[1].condensed_run)
    ):
        exchanges = [exchange for _, exchange in run]
        parts.append((exchanges[0].turn, _build_run_part(slot, exchanges, place)))
        place += sum([len(exchange.content.messages) for exchange in exchanges])
    return [*summary_parts, *(part for _, part in sorted(parts, key=lambda item: item[0]))]


def _build_summary_part(summary: SummaryMessage, place: int, joint: str) -> PromptPart:
    source = EventTextSource(sequence=summary.text_ref.sequence, field=summary.text_ref.field)
    if not summary.included:
        rule = "drop_oldest_pairs"
        return PromptPart(
            layer=HISTORY_COMPONENT,
            component=HISTORY_COMPONENT,
            source=source,
            treatment="dropped",
            rule=rule,
        )
    return PromptPart(
        layer=HISTORY_COMPONENT,
        component=HISTORY_COMPONENT,
        source=source,
        before=joint,
        message=place,
        role="system",
        digest=summary.text_ref.digest,
        characters=len(joint) + len(summary.text),
        tokens=summary.tokens,
        saved=summary.saved,
        treatment="summarised",
        rule=SUMMARISED,
    )


def _build_run_part(slot: PlannedHistory, exchanges: list[TurnExchange], place: int) -> PromptPart:
    run = [exchange.content for exchange in exchanges]
    condensed_run = exchanges[0].condensed_run
    return PromptPart(
        layer=HISTORY_COMPONENT,
        component=HISTORY_COMPONENT,
        source=HistorySource(
            view=slot.view,
            first=exchanges[0].turn,
            last=exchanges[-1].last_turn,
            work=slot.shows_work and (condensed_run is None or condensed_run.shows_work),
            condensed=condensed_run.condensed if condensed_run else None,
            again=condensed_run.again if condensed_run else (),
            later=condensed_run.later if condensed_run else None,
        ),
        message=place,
        role=run[0].messages[0].role,
        digest=compute_run_digest(run),
        characters=sum([content.characters for content in run]),
        tokens=sum([exchange.tokens for exchange in exchanges]),
        saved=sum([exchange.saved for exchange in exchanges]),
        treatment="condensed" if condensed_run else "kept",
        rule=condensed_run.rule if condensed_run else None,
    )


def _build_gap_part(view: str, out: ExcludedTurns) -> PromptPart:
    return PromptPart(
        layer=HISTORY_COMPONENT,
        component=HISTORY_COMPONENT,
        source=HistorySource(view=view, first=out.first, last=out.last),
        saved=out.saved,
        treatment=_TREATMENTS.get(out.rule, "absent"),
        rule=out.rule,
    )
