"""The error of a prompt that exceeds its budget, with the sizes of its layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from turnlog.events.errors import Refused
from turnlog.events.model.manifest import AppliedTrimStep
from turnlog.projections.blueprint.schema.layer_specs import (
    CORRECTION_LAYER,
    HISTORY_COMPONENT,
    INPUT_LAYER,
    MEDIA_COMPONENT,
    MEDIA_LAYER,
    REASONING_COMPONENT,
    REASONING_LAYER,
    REJECTED_LAYER,
    ROUNDS_COMPONENT,
    TOOL_CALLS_LAYER,
    TOOL_RESULTS_LAYER,
    TOOLS_COMPONENT,
)
from turnlog.projections.blueprint.token_counters import TokenCounter, format_factor
from turnlog.projections.prompt.prompt_plan import (
    PlannedMessage,
    PromptPlan,
    iterate_media,
    place_pieces,
)


@dataclass(frozen=True, slots=True)
class LayerSize:
    """The tokens of one layer after every trim step was taken."""

    layer: str
    tokens: int
    always: bool = False
    """Whether it may never be left out."""

    def __str__(self) -> str:
        return f"{self.layer} {self.tokens}{' (always kept)' if self.always else ''}"


@dataclass(frozen=True, slots=True)
class BudgetScope:
    """What a limit applies to: one layer, one component, or the whole prompt."""

    section: str | None = None
    component: str | None = None

    def has_layer(self, layer: str, component: str) -> bool:
        """Return whether a layer counts towards the limit."""
        return self.section in {None, layer} and self.component in {None, component}

    def __str__(self) -> str:
        if self.section:
            return f" of section {self.section}"
        return f" of component {self.component}" if self.component else ""


WHOLE_PROMPT: Final = BudgetScope()
"""The limit of the whole prompt."""


def find_step_scope(step: AppliedTrimStep) -> BudgetScope:
    """Return the scope of the limit that required a step."""
    return BudgetScope(step.section, step.component)


_TURN_LAYERS: Final = frozenset(
    {
        CORRECTION_LAYER,
        INPUT_LAYER,
        MEDIA_LAYER,
        REASONING_LAYER,
        REJECTED_LAYER,
        TOOL_CALLS_LAYER,
        TOOL_RESULTS_LAYER,
    }
)
"""Layers that another turn need not have."""


class BudgetExceeded(Refused):
    """A prompt, section or component that no trim step makes short enough."""

    def __init__(
        self,
        tokens: int,
        limit: int,
        sizes: Iterable[LayerSize],
        of: BudgetScope = WHOLE_PROMPT,
        factor: float = 1.0,
        *,
        is_lowered: bool = False,
    ) -> None:
        self.tokens = tokens
        self.limit = limit
        self.sizes = tuple(sizes)
        self.of = of
        sizes_text = ", ".join(str(size) for size in self.sizes)
        more = tokens - limit
        raised = f"the limit of {of.component}" if of.component else "the budget"
        has_history = any(size.layer == HISTORY_COMPONENT for size in self.sizes)
        shortened = "the input, exclude long turns" if has_history else "the input"
        room = f"the {limit} that the model has room for" if is_lowered else str(limit)
        other = (
            "choose a model with more room" if is_lowered else f"raise {raised} by {more} tokens"
        )
        super().__init__(
            "over-budget",
            f"{tokens} tokens{of}{format_factor(factor)} do not fit {room}: {sizes_text}",
            field="budget",
            fix=f"shorten {shortened} or {other}",
        )

    @property
    def has_room_without_turn(self) -> bool:
        """Whether the limit suffices for what every prompt has: all but the turn's own layers."""
        own = sum(size.tokens for size in self.sizes if size.layer in _TURN_LAYERS)
        return self.tokens - own <= self.limit

    @property
    def required_layers(self) -> tuple[LayerSize, ...]:
        """The layers that are always kept."""
        return tuple(size for size in self.sizes if size.always)


def measure_layers(
    plan: PromptPlan, of: BudgetScope, counting: TokenCounter, beside: Mapping[str, int]
) -> tuple[LayerSize, ...]:
    """Return the size of everything that is included within these bounds, each layer once.

    The sizes add up to what the scope was measured as.
    """
    sizes: dict[str, LayerSize] = {}
    for size in _iterate_sizes(plan, of, counting, beside):
        before = sizes.get(size.layer, LayerSize(size.layer, 0))
        always = before.always or size.always
        sizes[size.layer] = LayerSize(size.layer, before.tokens + size.tokens, always)
    return tuple(size for size in sizes.values() if size.tokens)


def _iterate_sizes(
    plan: PromptPlan, of: BudgetScope, counting: TokenCounter, beside: Mapping[str, int]
) -> Iterator[LayerSize]:
    for slot in plan:
        if isinstance(slot, PlannedMessage):
            yield from _iterate_message_sizes(slot, of, counting)
        elif of.has_layer(HISTORY_COMPONENT, HISTORY_COMPONENT):
            yield LayerSize(HISTORY_COMPONENT, slot.tokens)
    if of.has_layer(MEDIA_LAYER, MEDIA_COMPONENT):
        yield LayerSize(MEDIA_LAYER, sum(each.tokens for each in iterate_media(plan)))
    for component, tokens in beside.items():
        layer = "tools" if component == TOOLS_COMPONENT else component
        if of.has_layer(layer, component):
            yield LayerSize(layer, tokens)


def _iterate_message_sizes(
    slot: PlannedMessage, of: BudgetScope, counting: TokenCounter
) -> Iterator[LayerSize]:
    """Yield the sizes of a message: a section without its delimiters, anything else with them.

    The message as a whole is counted at once, and so are the layers of a section; the texts of a
    component are counted one by one, as the limits are.
    """
    if of.section:
        text = "".join([block.content for block in slot.blocks if block.layer == of.section])
        keep = any(block.keep for block in slot.blocks if block.layer == of.section)
        yield LayerSize(of.section, counting.count_tokens(text), keep)
        return
    placed = list(place_pieces(slot))
    texts = [each.text for each in placed]
    shares = map(counting.count_tokens, texts) if of.component else counting.count_shares(texts)
    for each, tokens in zip(placed, shares, strict=True):
        if of.has_layer(each.block.layer, each.block.component):
            yield LayerSize(each.block.layer, tokens, each.block.keep)
    if of.has_layer(REASONING_LAYER, REASONING_COMPONENT):
        reasoned = sum(map(counting.count_tokens, slot.reasoning_texts))
        yield LayerSize(REASONING_LAYER, reasoned, always=True)
    if of.has_layer(TOOL_CALLS_LAYER, ROUNDS_COMPONENT):
        for call in slot.tool_calls:
            yield LayerSize(TOOL_CALLS_LAYER, counting.count_tokens(call.text), always=True)
