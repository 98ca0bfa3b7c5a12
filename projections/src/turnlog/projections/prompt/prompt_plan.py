"""The plan of a prompt: its messages and histories in order, before and after trimming.

A plan holds everything that a part of the manifest records, except the message index. That is known
only when it is settled which messages stay.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Final

from turnlog.events.model.manifest import (
    ArgumentLimits,
    EventTextSource,
    MessageRole,
    RequestDialect,
    TextTruncation,
)
from turnlog.events.tokens import ToolRequest
from turnlog.projections.blueprint.schema.call_specs import MessageFormat
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.history.planned_history import PlannedHistory
from turnlog.projections.prompt.history.turn_messages import TurnExchange
from turnlog.projections.prompt.message_media import MessageMedia
from turnlog.projections.prompt.planned_media import PlannedMedia, leave_out_unread
from turnlog.projections.prompt.planned_reasoning import PlannedReasoning
from turnlog.projections.prompt.sources.delimiters import format_closing, format_opening
from turnlog.projections.prompt.sources.layer_content import LayerBlock, LayerPiece
from turnlog.projections.tools.argument_condensation import (
    ARGUMENT_LIMITS,
    ArgumentForm,
    condense_arguments,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedToolCall:
    """A tool call in an assistant's message."""

    source: EventTextSource
    """The arguments as the model wrote them."""
    id: str
    tool: str
    """The name that the server is sent."""
    arguments: str
    """The arguments as they are included; empty if they are no JSON object."""
    cut: TextTruncation | None
    """That they are left out; None if they are included."""
    signature: PlannedReasoning | None = None
    """What goes beside the call."""
    written: str
    """The arguments as the model wrote them."""
    can_condense: bool
    """Whether a step may condense them: they are of an earlier round, and nothing signs them."""
    condensed_to: ArgumentLimits | None = None
    """How they are condensed; None if they are not."""
    rule: str | None = None
    """The step that condensed them, or why they are left out."""
    is_renamed: bool = False
    """Whether the name is another than the one that models know the tool by."""

    @property
    def request(self) -> ToolRequest:
        """The tool call as it is sent; providers take no arguments but objects."""
        return ToolRequest(
            id=self.id,
            tool=self.tool,
            arguments=self.arguments or "{}",
            signature=self.signature.text if self.signature else None,
        )

    @property
    def text(self) -> str:
        """What is counted of it."""
        return f"{self.tool} {self.arguments}"

    def condense(self, form: ArgumentForm) -> PlannedToolCall:
        """Return the call with less of its arguments; the same call if that is not shorter."""
        limits = ARGUMENT_LIMITS[form]
        if self.condensed_to == limits or not self.can_condense:
            return self
        arguments = condense_arguments(self.written, limits)
        if len(arguments) >= len(self.arguments):
            return self
        rule = f"condense_results {form}"
        return replace(self, arguments=arguments, condensed_to=limits, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMessage:
    """One message made of layers; it is omitted if no layer has a text.

    A message that calls tools, or that answers such a call, is never omitted: providers refuse a
    call without its result.
    """

    role: MessageRole
    form: MessageFormat
    blocks: tuple[LayerBlock, ...]
    tool_calls: tuple[PlannedToolCall, ...] = ()
    tool_call_id: str | None = None
    """The tool call that it answers."""
    media: tuple[PlannedMedia, ...] = ()
    """The pictures, recordings and files beside its texts."""
    reasoning: PlannedReasoning | None = None
    """What the model reasoned before it."""
    blank_reasoning: PlannedReasoning | None = None
    """What is sent in place of it; None if it is sent, or may be missing."""

    @property
    def sent_reasoning(self) -> str:
        """The fields with what was reasoned, as they are sent; empty if there are none."""
        return next((each.text for each in self._list_reasoning() if each and each.text), "")

    def _list_reasoning(self) -> tuple[PlannedReasoning | None, ...]:
        return (self.reasoning, self.blank_reasoning)

    @property
    def reasoning_texts(self) -> tuple[str, ...]:
        """What is sent of the reasoning, with the signatures beside the calls."""
        planned = (*self._list_reasoning(), *(each.signature for each in self.tool_calls))
        return tuple(each.text for each in planned if each and each.text)


_HOST: Final = attrgetter("host")


PlannedSlot = PlannedMessage | PlannedHistory


PromptPlan = tuple[PlannedSlot, ...]


@dataclass(frozen=True, slots=True)
class PlacedPiece:
    """A piece with the text around it in its message."""

    block: LayerBlock
    piece: LayerPiece
    before: str
    after: str

    @property
    def text(self) -> str:
        """Everything that the piece adds to the message."""
        return self.before + self.piece.text + self.after


def place_pieces(slot: PlannedMessage) -> Iterator[PlacedPiece]:
    """Yield the included pieces of a message with the delimiters and separators around them."""
    form, joint = slot.form, ""
    for host, blocks in groupby(slot.blocks, _HOST):
        included = [
            (block, piece, form.segments_between * (place > 0) + before)
            for block in blocks
            for place, (piece, before) in enumerate(block.pieces_with_headings)
        ]
        for at, (block, piece, before) in enumerate(included):
            outer = "" if at else joint + format_opening(form, host)
            after = format_closing(form, host) if at == len(included) - 1 else ""
            yield PlacedPiece(block, piece, outer + before, after)
        joint = form.between if included else joint


def iterate_media(plan: PromptPlan) -> Iterator[PlannedMedia]:
    """Yield the media of a plan in the order of its messages."""
    for slot in plan:
        if isinstance(slot, PlannedHistory):
            for exchange in slot.exchanges:
                yield from exchange.media
        else:
            yield from slot.media


def leave_out_oldest_images(
    plan: PromptPlan, rule: str, counting: TokenCounter, over: int
) -> PromptPlan:
    """Return a plan with lines in the places of the oldest pictures of earlier turns.

    As many are left out as save `over` tokens. A picture that takes no more than its line stays.
    """

    def leave_out(media: PlannedMedia) -> PlannedMedia:
        nonlocal over
        if over <= 0:
            return media
        line = _leave_out_image(media, rule, counting)
        over -= line.saved if line is not media else 0
        return line

    def change(slot: PlannedSlot) -> PlannedSlot:
        if not isinstance(slot, PlannedHistory):
            return slot
        exchanges = (
            replace(each, media=tuple(map(leave_out, each.media))) if each.media else each
            for each in slot.exchanges
        )
        return replace(slot, exchanges=tuple(exchanges))

    return tuple(map(change, plan))


def _leave_out_image(media: PlannedMedia, rule: str, counting: TokenCounter) -> PlannedMedia:
    """Return the line in the place of a picture; the same media if that saves nothing."""
    if media.kind != "image":
        return media
    line = media.leave_out(rule, counting)
    return media if not line.saved or line.characters >= media.characters else line


def leave_out_images_through(
    plan: PromptPlan, rule: str, counting: TokenCounter, turn: int, views: frozenset[str]
) -> PromptPlan:
    """Return a plan with lines in the places of all pictures of these views up to a turn."""

    def leave_out(exchange: TurnExchange) -> TurnExchange:
        if exchange.last_turn > turn or not exchange.media:
            return exchange
        lines = [_leave_out_image(each, rule, counting) for each in exchange.media]
        return replace(exchange, media=tuple(lines))

    return _update_exchanges(plan, views, leave_out)


def leave_out_reasoning_through(plan: PromptPlan, turn: int, views: frozenset[str]) -> PromptPlan:
    """Return a plan without the reasoning before the replies of these views up to a turn."""

    def leave_out(exchange: TurnExchange) -> TurnExchange:
        is_left_out = exchange.last_turn <= turn and exchange.reasoning_tokens
        return exchange.leave_out_reasoning() if is_left_out else exchange

    return _update_exchanges(plan, views, leave_out)


def _update_exchanges(
    plan: PromptPlan, views: frozenset[str], change: Callable[[TurnExchange], TurnExchange]
) -> PromptPlan:
    return tuple(
        replace(slot, exchanges=tuple(map(change, slot.exchanges)))
        if isinstance(slot, PlannedHistory) and slot.view in views
        else slot
        for slot in plan
    )


def leave_out_oldest_reasoning(plan: PromptPlan, over: int) -> PromptPlan:
    """Return a plan without the reasoning before the oldest replies, up to `over` saved tokens."""

    def leave_out(exchange: TurnExchange) -> TurnExchange:
        nonlocal over
        if over <= 0 or not exchange.reasoning_tokens:
            return exchange
        over -= exchange.reasoning_tokens
        return exchange.leave_out_reasoning()

    return tuple(
        replace(slot, exchanges=tuple(map(leave_out, slot.exchanges)))
        if isinstance(slot, PlannedHistory) and slot.reasoning_texts
        else slot
        for slot in plan
    )


def leave_out_unread_media(
    plan: PromptPlan, dialect: RequestDialect, counting: TokenCounter
) -> PromptPlan:
    """Return a plan with a line in the place of each part that the model does not read."""

    def leave_out(media: tuple[PlannedMedia, ...]) -> tuple[PlannedMedia, ...]:
        return leave_out_unread(media, dialect, counting)

    def change(slot: PlannedSlot) -> PlannedSlot:
        if not isinstance(slot, PlannedHistory):
            return replace(slot, media=leave_out(slot.media)) if slot.media else slot
        exchanges = (
            replace(each, media=leave_out(each.media)) if each.media else each
            for each in slot.exchanges
        )
        return replace(slot, exchanges=tuple(exchanges))

    return tuple(map(change, plan))


def place_media(
    slot: PlannedMessage, placed_texts: Sequence[tuple[PlacedPiece, str]]
) -> tuple[MessageMedia, ...]:
    """Return the media of a message, each at its place in the text that it was submitted with.

    Where the message does not have that text, they are at its end.
    """
    starts = accumulate((len(text) for _, text in placed_texts), initial=0)
    places = {
        piece.source.sequence: (start + len(placed.before), piece)
        for start, (placed, _) in zip(starts, placed_texts, strict=False)
        if isinstance((piece := placed.piece).source, EventTextSource)
        and piece.source.field == "text"
    }
    end = sum(len(text) for _, text in placed_texts)
    return tuple(
        media.place_in_message(_find_place(media, places.get(media.ref.sequence), end))
        for media in slot.media
    )


def _find_place(media: PlannedMedia, text: tuple[int, LayerPiece] | None, end: int) -> int:
    if text is None:
        return end
    start, piece = text
    at = min(media.ref.part.at, piece.cut.to if piece.cut else len(piece.full_text))
    return start + at + bisect_left(piece.indented, at)


def format_message(slot: PlannedMessage) -> str:
    """Return the whole text of a message."""
    if any(block.within for block in slot.blocks):
        return "".join([placed.text for placed in place_pieces(slot)])
    return slot.form.between.join(filter(None, [block.delimited_content for block in slot.blocks]))


def condense_longest_arguments(plan: PromptPlan, form: ArgumentForm) -> PromptPlan:
    """Return a plan with the longest arguments condensed that can be; the same if none can."""
    calls = [
        (call, index, place, slot)
        for place, slot in enumerate(plan)
        if isinstance(slot, PlannedMessage)
        for index, call in enumerate(slot.tool_calls)
        if call.can_condense
    ]
    for call, index, place, slot in sorted(calls, key=lambda each: -len(each[0].arguments)):
        if (shorter := call.condense(form)) is not call:
            others = slot.tool_calls
            changed = replace(slot, tool_calls=(*others[:index], shorter, *others[index + 1 :]))
            return (*plan[:place], changed, *plan[place + 1 :])
    return plan


def update_layer(
    plan: PromptPlan, layer: str, change: Callable[[LayerBlock], LayerBlock]
) -> PromptPlan:
    """Apply a change to a layer in every message that contains it."""
    return tuple(_update_slot(slot, layer, change) for slot in plan)


def _update_slot(
    slot: PlannedSlot, layer: str, change: Callable[[LayerBlock], LayerBlock]
) -> PlannedSlot:
    if isinstance(slot, PlannedHistory) or all(block.layer != layer for block in slot.blocks):
        return slot
    blocks = (change(block) if block.layer == layer else block for block in slot.blocks)
    return replace(slot, blocks=tuple(blocks))


def update_view(
    plan: PromptPlan, view: str, change: Callable[[PlannedHistory], PlannedHistory]
) -> PromptPlan:
    """Apply a change to a history view."""
    return tuple(
        change(slot) if isinstance(slot, PlannedHistory) and slot.view == view else slot
        for slot in plan
    )
