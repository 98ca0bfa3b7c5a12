"""The ladder: what goes when a prompt does not fit, in the order its author wrote.

A step is repeated until it makes nothing shorter any more; only then comes the next. A prompt
that fits is returned untouched, and one that cannot be made to fit is refused with what stands
in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from pydantic import JsonValue

from turnlog.events.manifest import StepTaken
from turnlog.projections.blueprint.budget import Budget, allowed
from turnlog.projections.blueprint.ladder import Ladder
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.overflow import OverBudget, sizes_of
from turnlog.projections.window.pieces import TakeStep
from turnlog.projections.window.plan import HistorySlot, LayerSlot, Plan, message
from turnlog.projections.window.steps import taken


@dataclass(frozen=True, slots=True)
class Size:
    """How much something takes."""

    tokens: int
    characters: int


Measure = Callable[[Plan], Size]


@dataclass(frozen=True, slots=True)
class Climb:
    """One ladder to be climbed: what it measures, and how much that may be."""

    ladder: Ladder
    measure: Measure
    limit: int
    section: str | None = None


@dataclass(frozen=True, slots=True)
class Fitting:
    """What is known beside the plan."""

    budget: Budget
    counting: Counting
    inputs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    beside: int = 0
    """Tokens of the tools that are offered with the prompt."""
    registered: Mapping[str, TakeStep] = field(default_factory=dict[str, TakeStep])
    """Steps of packages."""

    @property
    def limit(self) -> int:
        """Tokens the whole prompt may have."""
        return allowed(self.budget.tokens, self.inputs)


def fitted(plan: Plan, fitting: Fitting) -> tuple[Plan, tuple[StepTaken, ...]]:
    """Cut a plan down: first its sections, then the whole; says what was done.

    Raises `OverBudget` when that cannot be.
    """
    taken_steps: list[StepTaken] = []
    for climb in _climbs(fitting):
        plan, steps = _climbed(plan, climb, fitting)
        taken_steps += steps
    return plan, tuple(taken_steps)


def _climbs(fitting: Fitting) -> list[Climb]:
    budget = fitting.budget
    sections = [
        Climb(
            section.ladder,
            partial(section_size, layer=layer, counting=fitting.counting),
            allowed(section.tokens, fitting.inputs),
            layer,
        )
        for layer, section in budget.sections.items()
    ]
    whole = Climb(
        budget.ladder,
        partial(plan_size, counting=fitting.counting, beside=fitting.beside),
        fitting.limit,
    )
    return [*sections, whole]


def _climbed(plan: Plan, climb: Climb, fitting: Fitting) -> tuple[Plan, list[StepTaken]]:
    size = climb.measure(plan)
    steps: list[StepTaken] = []
    for step in climb.ladder:
        before = size
        while size.tokens > climb.limit:
            shorter = taken(plan, step.rung, size.tokens - climb.limit, fitting.registered)
            less = climb.measure(shorter)
            # A step that does not shorten is exhausted; this is also why climbing ends
            if less.characters >= size.characters:
                break
            plan, size = shorter, less
        if size != before:
            steps.append(_noted(step.word, step.target, climb, before, size))
    if size.tokens > climb.limit:
        sizes = sizes_of(plan, climb.section, fitting.counting, fitting.beside)
        raise OverBudget(size.tokens, climb.limit, sizes, climb.section)
    return plan, steps


def _noted(word: str, target: str, climb: Climb, before: Size, after: Size) -> StepTaken:
    return StepTaken(
        step=word, on=target, section=climb.section, before=before.tokens, after=after.tokens
    )


def plan_size(plan: Plan, counting: Counting, beside: int = 0) -> Size:
    """Measure everything that stands in the prompt."""
    tokens, characters = beside, 0
    for slot in plan:
        if isinstance(slot, HistorySlot):
            tokens += sum([exchange.tokens for exchange in slot.exchanges])
            characters += sum([exchange.said.characters for exchange in slot.exchanges])
        else:
            text = message(slot)
            tokens += counting.count(text)
            characters += len(text)
    return Size(tokens, characters)


def section_size(plan: Plan, layer: str, counting: Counting) -> Size:
    """Measure what one layer says, without its fences."""
    blocks = (block for slot in plan if isinstance(slot, LayerSlot) for block in slot.blocks)
    text = "".join([block.content for block in blocks if block.layer == layer])
    return Size(counting.count(text), len(text))
