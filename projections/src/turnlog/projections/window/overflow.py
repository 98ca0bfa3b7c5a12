"""The error of a prompt that cannot be made to fit, with the sizes of what is in the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from turnlog.events.errors import Refused
from turnlog.events.manifest import StepTaken
from turnlog.projections.blueprint.components import HISTORY, TOOLS_CONTEXT
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.plan import HistorySlot, Plan


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
class Bounds:
    """What a limit applies to: one layer, one component, or the whole prompt."""

    section: str | None = None
    component: str | None = None

    def holds(self, layer: str, component: str) -> bool:
        """Return whether a layer counts towards the limit."""
        return self.section in {None, layer} and self.component in {None, component}

    def __str__(self) -> str:
        if self.section:
            return f" of section {self.section}"
        return f" of component {self.component}" if self.component else ""


WHOLE: Final = Bounds()
"""The limit of the whole prompt."""


def bounds_of(step: StepTaken) -> Bounds:
    """Return the scope of the limit that required a step."""
    return Bounds(step.section, step.component)


class OverBudget(Refused):
    """A prompt, section or component that no trim step makes short enough."""

    def __init__(
        self, tokens: int, limit: int, sizes: Iterable[LayerSize], of: Bounds = WHOLE
    ) -> None:
        self.tokens = tokens
        self.limit = limit
        self.sizes = tuple(sizes)
        self.of = of
        told = ", ".join(str(size) for size in self.sizes)
        more = tokens - limit
        raised = f"the limit of {of.component}" if of.component else "the budget"
        super().__init__(
            "over-budget",
            f"{tokens} tokens{of} do not fit {limit}: {told}",
            field="budget",
            fix=f"shorten the input or raise {raised} by {more} tokens",
        )

    @property
    def kept(self) -> tuple[LayerSize, ...]:
        """The layers that are always kept."""
        return tuple(size for size in self.sizes if size.always)


def sizes_of(plan: Plan, of: Bounds, counting: Counting, beside: int) -> Iterator[LayerSize]:
    """Yield the size of everything that is included within these bounds."""
    for slot in plan:
        if isinstance(slot, HistorySlot):
            if slot.tokens and of.holds(HISTORY, HISTORY):
                yield LayerSize("history", slot.tokens)
            continue
        for block in slot.blocks:
            if block.standing and of.holds(block.layer, block.component):
                yield LayerSize(block.layer, counting.count(block.content), block.keep)
    if beside and of.holds("tools", TOOLS_CONTEXT):
        yield LayerSize("tools", beside)
