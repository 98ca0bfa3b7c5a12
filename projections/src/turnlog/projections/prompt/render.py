"""Render a plan as messages, and each of its pieces as a part of the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Final

from turnlog.events.content import compute_digest
from turnlog.events.model.manifest import (
    BlueprintTextSource,
    EventTextSource,
    HistorySource,
    MessageRole,
    PartTreatment,
    PromptPart,
    RequestDialect,
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
    DROP_TURNS_RULE,
    OUT_OF_REACH,
    SUMMARISED,
    ExcludedTurns,
)
from turnlog.projections.prompt.history.history_condenser import DUPLICATES_RULE
from turnlog.projections.prompt.history.planned_history import PlannedHistory, SummaryMessage
from turnlog.projections.prompt.history.turn_messages import TurnExchange, compute_run_digest
from turnlog.projections.prompt.message_order import (
    OPENING_TEXT,
    MessageOrder,
    can_join,
    send_as_user,
)
from turnlog.projections.prompt.planned_media import build_media_parts, insert_media_parts
from turnlog.projections.prompt.planned_reasoning import PlannedReasoning
from turnlog.projections.prompt.prompt_plan import (
    PlacedPiece,
    PlannedMessage,
    PlannedToolCall,
    PromptPlan,
    iterate_media,
    place_media,
    place_pieces,
)
from turnlog.projections.prompt.request_dialect import has_joined_first_turns
from turnlog.projections.prompt.sources.layer_content import LayerBlock, LayerPiece

_SOURCES_WITHOUT_DIGEST: Final = (EventTextSource, ResolutionSource)
"""Sources that do not hold the digest of their text."""

_TREATMENTS: Final[dict[str, PartTreatment]] = {
    DROP_TURNS_RULE: "dropped",
    OUT_OF_REACH: "dropped",
    DUPLICATES_RULE: "condensed",
    SUMMARISED: "summarised",
}
"""The treatment of turns that are excluded by a rule; any other rule means `absent`."""


def render_plan(
    plan: PromptPlan,
    counting: TokenCounter,
    *,
    dialect: RequestDialect,
    joins_summaries: bool,
    joins_omissions: bool,
) -> tuple[tuple[ChatMessage, ...], tuple[PromptPart, ...]]:
    """Return the messages of a plan and its parts in order, excluded parts as well.

    With `joins_summaries`, a summary right after the first system message is part of it. With
    `joins_omissions`, pictures that were left out side by side are one part.
    """
    order = MessageOrder(dialect.roles, joins_first_turns=has_joined_first_turns(dialect))
    parts: list[PromptPart] = []
    for slot in plan:
        if isinstance(slot, PlannedHistory):
            parts += _render_summary(slot, order, joins=joins_summaries)
            parts += _render_turns(slot, order, counting)
        else:
            parts += _render_message(slot, order, counting)
    messages = tuple(order.messages)
    media_parts = build_media_parts(messages, iterate_media(plan))
    return messages, tuple(insert_media_parts(parts, media_parts, joins=joins_omissions))


def _render_message(
    slot: PlannedMessage, order: MessageOrder, counting: TokenCounter
) -> Iterator[PromptPart]:
    """Add a message of layers, if it has a text, and yield its parts."""
    placed_texts = [(placed, placed.text) for placed in place_pieces(slot)]
    text = "".join([text for _, text in placed_texts])
    has_message = bool(text or slot.tool_calls or slot.tool_call_id is not None or slot.media)
    role = order.resolve_role(slot.role)
    if has_message and order.needs_opening(role):
        yield _add_opening(order)
    joint = "" if slot.tool_calls or slot.reasoning else order.find_joint(role)
    place = order.find_place(joint)
    for planned in (slot.reasoning, slot.blank_reasoning):
        if planned:
            yield _build_reasoning_part(planned, place, counting)
    layer_parts = _build_layer_parts(slot, placed_texts, place, counting)
    yield from _join_parts(layer_parts, role, joint) if joint or role != slot.role else layer_parts
    yield from _build_tool_call_parts(slot, place, counting)
    if has_message:
        calls = tuple(each.request for each in slot.tool_calls)
        media = place_media(slot, placed_texts) if slot.media else ()
        message = ChatMessage(
            role=role,
            content=text,
            tool_calls=calls,
            tool_call_id=slot.tool_call_id,
            media=media,
            reasoning=slot.sent_reasoning,
        )
        order.add_message(message, joint)


def _join_parts(parts: Iterable[PromptPart], role: MessageRole, joint: str) -> Iterator[PromptPart]:
    """Yield the parts of a message in the role it is sent in, the first after what joins it.

    A budget is fitted before, so what joins texts counts as no token.
    """
    for part in parts:
        if not part.is_included:
            yield part
            continue
        before, characters = joint + part.before, len(joint) + part.characters
        yield part.model_copy(update={"role": role, "before": before, "characters": characters})
        joint = ""


def _add_opening(order: MessageOrder) -> PromptPart:
    """Add the message of the user before the first one of the assistant; it counts as no token."""
    place = len(order.messages)
    order.add_message(ChatMessage("user", OPENING_TEXT))
    return PromptPart(
        layer=HISTORY_COMPONENT,
        component=HISTORY_COMPONENT,
        source=BlueprintTextSource(text=OPENING_TEXT),
        message=place,
        role="user",
        characters=len(OPENING_TEXT),
        rule="the server takes a message of the user first",
    )


def _render_summary(
    slot: PlannedHistory, order: MessageOrder, *, joins: bool
) -> Iterator[PromptPart]:
    """Add the summary of a history, if it has one, as a message or to the one before it.

    A budget is fitted before, so the separator counts as no token.
    """
    summary = slot.summary
    if summary is None:
        return
    role = order.resolve_role("system")
    joint = order.find_joint(role)
    if joins and [each.role for each in order.messages] == ["system"]:
        joint = LAYER_SEPARATOR
    yield _build_summary_part(summary, order.find_place(joint), role, joint)
    if summary.included:
        order.add_message(ChatMessage(role, summary.text), joint)


def _render_turns(
    slot: PlannedHistory, order: MessageOrder, counting: TokenCounter
) -> Iterator[PromptPart]:
    """Add the turns of a history, and yield its runs and gaps in the order of their turns.

    A run ends where the next turn joins its last message. What was reasoned in it follows it.
    """
    exchanges = slot.exchanges
    if exchanges and order.needs_opening(exchanges[0].content.messages[0].role):
        yield _add_opening(order)
    parts: list[tuple[int, PromptPart]] = [
        (out.first, _build_gap_part(slot.view, out)) for out in slot.left_out
    ]
    sections = _number_sections(exchanges, order)
    numbered = enumerate(exchanges)
    for _, run in groupby(
        numbered,
        key=lambda item: (item[1].turn - item[0], item[1].condensed_run, sections[item[0]]),
    ):
        run_exchanges = [exchange for _, exchange in run]
        first = run_exchanges[0].turn
        parts.append((first, _add_run(slot, run_exchanges, order)))
        if slot.keeps_reasoning:
            reasoned = _build_run_reasoning_parts(run_exchanges, len(order.messages), counting)
            parts += ((first, part) for part in reasoned)
    yield from (part for _, part in sorted(parts, key=lambda item: item[0]))


def _number_sections(exchanges: Sequence[TurnExchange], order: MessageOrder) -> Sequence[int]:
    """Return how many turns have joined the message before them, up to each turn."""
    if order.roles != "alternating":
        return [0] * len(exchanges)
    runs = [send_as_user(each.messages) for each in exchanges]
    before_each = [*order.messages[-1:], *(run[-1] for run in runs)]
    is_begun = bool(order.messages)
    runs_after = runs if is_begun or not order.joins_first_turns else runs[1:]
    joins = [
        can_join(order.roles, before, run[0].role) and not run[0].reasoning
        for before, run in zip(before_each, runs_after, strict=False)
    ]
    return [*accumulate(joins)] if is_begun else [0, *accumulate(joins)]


def _add_run(
    slot: PlannedHistory, exchanges: Sequence[TurnExchange], order: MessageOrder
) -> PromptPart:
    """Add consecutive turns, and return their part."""
    messages = [each for exchange in exchanges for each in exchange.messages]
    as_user = order.roles != "anywhere" and any(each.role == "system" for each in messages)
    sent = send_as_user(messages) if as_user else messages
    joint = "" if sent[0].reasoning else order.find_joint(sent[0].role)
    part = _build_run_part(
        slot=slot,
        exchanges=exchanges,
        place=order.find_place(joint),
        role=sent[0].role,
        joint=joint if sent[0].content else "",
        system_as_user=as_user,
    )
    order.add_run(sent, joint)
    return part


def _build_run_reasoning_parts(
    exchanges: Sequence[TurnExchange], end: int, counting: TokenCounter
) -> Iterator[PromptPart]:
    """Yield the parts of what was reasoned in turns whose messages end before the index `end`."""
    place = end - sum([len(each.content.messages) for each in exchanges])
    for exchange in exchanges:
        place += len(exchange.content.messages)
        if exchange.reasoning:
            yield _build_reasoning_part(exchange.reasoning, place - 1, counting)


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
            condensed_to=each.condensed_to,
            message=place,
            role="tool_call",
            name=each.tool if each.is_renamed else None,
            digest=compute_digest(each.arguments),
            characters=len(each.text),
            tokens=counting.count_tokens(each.text),
            saved=_count_saved_arguments(each, counting),
            treatment=_find_call_treatment(each),
            rule=each.rule,
        )
        if each.signature:
            yield _build_reasoning_part(each.signature, place, counting, item=each.tool)


def _find_call_treatment(call: PlannedToolCall) -> PartTreatment:
    if call.condensed_to:
        return "condensed"
    return "trimmed" if call.cut else "kept"


def _count_saved_arguments(call: PlannedToolCall, counting: TokenCounter) -> int:
    if call.condensed_to is None:
        return 0
    return counting.count_tokens(call.written) - counting.count_tokens(call.arguments)


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
        "digest": compute_digest(planned.text)
        if isinstance(planned.source, _SOURCES_WITHOUT_DIGEST)
        else None,
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


def _build_summary_part(
    summary: SummaryMessage, place: int, role: MessageRole, joint: str
) -> PromptPart:
    source = EventTextSource(sequence=summary.text_ref.sequence, field=summary.text_ref.field)
    if not summary.included:
        return PromptPart(
            layer=HISTORY_COMPONENT,
            component=HISTORY_COMPONENT,
            source=source,
            treatment="dropped",
            rule=DROP_TURNS_RULE,
        )
    return PromptPart(
        layer=HISTORY_COMPONENT,
        component=HISTORY_COMPONENT,
        source=source,
        before=joint,
        message=place,
        role=role,
        digest=summary.text_ref.digest,
        characters=len(joint) + len(summary.text),
        tokens=summary.tokens,
        saved=summary.saved,
        treatment="summarised",
        rule=SUMMARISED,
    )


def _build_run_part(
    slot: PlannedHistory,
    exchanges: Sequence[TurnExchange],
    place: int,
    role: MessageRole,
    joint: str,
    *,
    system_as_user: bool,
) -> PromptPart:
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
            system_as_user=system_as_user,
        ),
        before=joint,
        message=place,
        role=role,
        digest=compute_run_digest(run),
        characters=len(joint) + sum([content.characters for content in run]),
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
