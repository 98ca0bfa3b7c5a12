"""The size of a plan, or of what one limit of a budget counts of it."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.projections.blueprint.schema.layer_specs import (
    HISTORY_COMPONENT,
    MEDIA_COMPONENT,
    REASONING_COMPONENT,
    ROUNDS_COMPONENT,
)
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.history.planned_history import PlannedHistory
from turnlog.projections.prompt.prompt_plan import (
    PlannedMessage,
    PromptPlan,
    format_message,
    iterate_media,
    place_pieces,
)


@dataclass(frozen=True, slots=True)
class PlanSize:
    """The size of a plan or a part of it."""

    tokens: int
    characters: int


def measure_plan(plan: PromptPlan, counting: TokenCounter, beside: int) -> PlanSize:
    """Return the size of the whole prompt."""
    tokens, characters = beside, 0
    for slot in plan:
        if isinstance(slot, PlannedHistory):
            tokens += slot.tokens + slot.reasoning_tokens
            characters += slot.characters + sum(map(len, slot.reasoning_texts))
        else:
            calls = (each.text for each in slot.tool_calls)
            for text in (format_message(slot), *calls, *slot.reasoning_texts):
                tokens += counting.count_tokens(text)
                characters += len(text)
    return _add_media(plan, PlanSize(tokens, characters))


def _add_media(plan: PromptPlan, size: PlanSize) -> PlanSize:
    media = list(iterate_media(plan))
    if not media:
        return size
    return PlanSize(
        size.tokens + sum(each.tokens for each in media),
        size.characters + sum(each.characters for each in media),
    )


def measure_section(plan: PromptPlan, layer: str, counting: TokenCounter) -> PlanSize:
    """Return the size of one layer, without delimiters."""
    blocks = (block for slot in plan if isinstance(slot, PlannedMessage) for block in slot.blocks)
    text = "".join([block.content for block in blocks if block.layer == layer])
    return PlanSize(counting.count_tokens(text), len(text))


def measure_component(
    plan: PromptPlan, component: str, counting: TokenCounter, beside: int = 0
) -> PlanSize:
    """Return the size of one component, delimiters and separators included.

    Each text is counted by itself, so that cutting one component does not lengthen another.
    """
    if component == MEDIA_COMPONENT:
        return _add_media(plan, PlanSize(beside, 0))
    tokens, characters = beside, 0
    for slot in plan:
        if isinstance(slot, PlannedMessage):
            texts = [each.text for each in place_pieces(slot) if each.block.component == component]
            if component == ROUNDS_COMPONENT:
                texts += [each.text for each in slot.tool_calls]
            if component == REASONING_COMPONENT:
                texts += slot.reasoning_texts
            tokens += sum(map(counting.count_tokens, texts))
            characters += sum(map(len, texts))
        elif component == HISTORY_COMPONENT:
            tokens += slot.tokens
            characters += slot.characters
        elif component == REASONING_COMPONENT:
            tokens += slot.reasoning_tokens
            characters += sum(map(len, slot.reasoning_texts))
    return PlanSize(tokens, characters)
