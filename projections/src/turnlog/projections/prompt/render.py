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
from turnlog.projections.blueprint.schema.layer_specs import HISTORY_COMPONENT
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.projections.prompt.history.history_condenser import DUPLICATES_RULE
from turnlog.projections.prompt.history.history_selection import (
    OUT_OF_REACH,
    SUMMARISED,
    ExcludedTurns,
)
from turnlog.projections.prompt.history.planned_history import PlannedHistory, SummaryMessage
from turnlog.projections.prompt.history.turn_messages import TurnExchange, compute_run_digest
from turnlog.projections.prompt.prompt_plan import (
    PlacedPiece,
    PlannedMessage,
    PromptPlan,
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
    plan: PromptPlan, counting: TokenCounter
) -> tuple[tuple[ChatMessage, ...], tuple[PromptPart, ...]]:
    """Return the messages of a plan and its parts in order, excluded parts as well."""
    messages: list[ChatMessage] = []
    parts: list[PromptPart] = []
    for slot in plan:
        if isinstance(slot, PlannedHistory):
            parts += _build_history_parts(slot, len(messages))
            messages += (
                [ChatMessage("system", slot.included_summary.text)] if slot.included_summary else []
            )
            messages += [each for exchange in slot.exchanges for each in exchange.content.messages]
        else:
            standing = [(stretch, stretch.text) for stretch in place_pieces(slot)]
            parts += _build_layer_parts(slot, standing, len(messages), counting)
            text = "".join([text for _, text in standing])
            messages += [ChatMessage(slot.role, text)] if text else []
    return tuple(messages), tuple(parts)


def _build_layer_parts(
    slot: PlannedMessage,
    standing: Sequence[tuple[PlacedPiece, str]],
    place: int,
    counting: TokenCounter,
) -> Iterator[PromptPart]:
    tokens = counting.count_shares([text for _, text in standing])
    shown = {
        id(stretch.piece): _build_included_part(slot, stretch, place, len(text), share, counting)
        for (stretch, text), share in zip(standing, tokens, strict=True)
    }
    for block in slot.blocks:
        for piece in block.pieces:
            yield shown.get(id(piece)) or _build_excluded_part(block, piece)


def _build_included_part(
    slot: PlannedMessage,
    stretch: PlacedPiece,
    place: int,
    characters: int,
    tokens: int,
    counting: TokenCounter,
) -> PromptPart:
    piece = stretch.piece
    return PromptPart(
        layer=stretch.block.layer,
        component=stretch.block.component,
        item=piece.item.name if piece.item else None,
        source=piece.source,
        before=stretch.before,
        after=stretch.after,
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
        saved=_count_saved_tokens(stretch, counting) if piece.treatment == "condensed" else 0,
        treatment=piece.treatment,
        rule=piece.rule,
    )


def _count_saved_tokens(stretch: PlacedPiece, counting: TokenCounter) -> int:
    """Count the tokens that a condensed text saves in its layer."""
    gone = (
        each for each in stretch.block.pieces if each.treatment == "condensed" and not each.text
    )
    longer = sum(counting.count_tokens(each.full_text) for each in gone)
    return max(0, longer - counting.count_tokens(stretch.piece.text))


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


def _build_history_parts(slot: PlannedHistory, place: int) -> list[PromptPart]:
    """Return runs and gaps in the order of their turns."""
    recap = [_build_summary_part(slot.summary, place)] if slot.summary else []
    place += slot.included_summary is not None
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
    return [*recap, *(part for _, part in sorted(parts, key=lambda item: item[0]))]


def _build_summary_part(recap: SummaryMessage, place: int) -> PromptPart:
    source = EventTextSource(sequence=recap.text_ref.sequence, field=recap.text_ref.field)
    if not recap.included:
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
        message=place,
        role="system",
        digest=recap.text_ref.digest,
        characters=len(recap.text),
        tokens=recap.tokens,
        treatment="summarised",
        rule=SUMMARISED,
    )


def _build_run_part(slot: PlannedHistory, exchanges: list[TurnExchange], place: int) -> PromptPart:
    run = [exchange.content for exchange in exchanges]
    retelling = exchanges[0].condensed_run
    return PromptPart(
        layer=HISTORY_COMPONENT,
        component=HISTORY_COMPONENT,
        source=HistorySource(
            view=slot.view,
            first=exchanges[0].turn,
            last=exchanges[-1].last_turn,
            work=slot.shows_work and (retelling is None or retelling.shows_work),
            condensed=retelling.condensed if retelling else None,
            again=retelling.again if retelling else (),
            later=retelling.later if retelling else None,
        ),
        message=place,
        role=run[0].messages[0].role,
        digest=compute_run_digest(run),
        characters=sum([said.characters for said in run]),
        tokens=sum([exchange.tokens for exchange in exchanges]),
        saved=sum([exchange.saved for exchange in exchanges]),
        treatment="condensed" if retelling else "kept",
        rule=retelling.rule if retelling else None,
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
