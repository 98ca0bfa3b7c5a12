"""The error of a prompt that exceeds its budget, with the sizes of its layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from turnlog.events.errors import Refused
from turnlog.events.model.manifest import AppliedTrimStep
from turnlog.projections.blueprint.schema.layer_specs import (
    HISTORY_COMPONENT,
    MEDIA_COMPONENT,
    MEDIA_LAYER,
    REASONING_COMPONENT,
    REASONING_LAYER,
    TOOLS_COMPONENT,
)
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.prompt.history.planned_history import PlannedHistory
from turnlog.projections.prompt.prompt_plan import PromptPlan, iterate_media


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


class BudgetExceeded(Refused):
    """A prompt, section or component that no trim step makes short enough."""

    def __init__(
        self, tokens: int, limit: int, sizes: Iterable[LayerSize], of: BudgetScope = WHOLE_PROMPT
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
        super().__init__(
            "over-budget",
            f"{tokens} tokens{of} do not fit {limit}: {sizes_text}",
            field="budget",
            fix=f"shorten {shortened} or raise {raised} by {more} tokens",
        )

    @property
    def required_layers(self) -> tuple[LayerSize, ...]:
        """The layers that are always kept."""
        return tuple(size for size in self.sizes if size.always)


def measure_layers(
    plan: PromptPlan, of: BudgetScope, counting: TokenCounter, beside: Mapping[str, int]
) -> Iterator[LayerSize]:
    """Yield the size of everything that is included within these bounds."""
    for slot in plan:
        if isinstance(slot, PlannedHistory):
            if slot.tokens and of.has_layer(HISTORY_COMPONENT, HISTORY_COMPONENT):
                yield LayerSize("history", slot.tokens)
            continue
        for block in slot.blocks:
            if block.included_pieces and of.has_layer(block.layer, block.component):
                yield LayerSize(block.layer, counting.count_tokens(block.content), block.keep)
        if slot.reasoning_texts and of.has_layer(REASONING_LAYER, REASONING_COMPONENT):
            reasoned = sum(map(counting.count_tokens, slot.reasoning_texts))
            yield LayerSize(REASONING_LAYER, reasoned, always=True)
    media_tokens = sum(each.tokens for each in iterate_media(plan))
    if media_tokens and of.has_layer(MEDIA_LAYER, MEDIA_COMPONENT):
        yield LayerSize(MEDIA_LAYER, media_tokens)
    for component, tokens in beside.items():
        layer = "tools" if component == TOOLS_COMPONENT else component
        if tokens and of.has_layer(layer, component):
            yield LayerSize(layer, tokens)
