from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from pydantic import JsonValue

from turnlog.events.manifest import StepTaken
from turnlog.projections.blueprint.budget import Budget, allowed
from turnlog.projections.blueprint.components import HISTORY, TOOLS_CONTEXT
from turnlog.projections.blueprint.ladder import Ladder
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.overflow import WHOLE, Bounds, OverBudget, sizes_of
from turnlog.projections.window.pieces import TakeStep
from turnlog.projections.window.plan import HistorySlot, LayerSlot, Plan, message, stretches
from turnlog.projections.window.steps import aims, taken


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a plan or a part of it."""

    tokens: int
    characters: int


Measure = Callable[[Plan], Size]


@dataclass(frozen=True, slots=True)
class Climb:
    """One ladder to apply: what it measures, and its limit."""

    ladder: Ladder
    measure: Measure
    limit: int
    of: Bounds = WHOLE
    yields: bool = False
    """Whether an exceeded limit is left to the limit of the whole prompt."""


@dataclass(frozen=True, slots=True)
class Fitting:
    """What a plan is fitted with, besides the plan."""

    budget: Budget
    counting: Counting
    inputs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    beside: int = 0
    """Tokens of the tools that are offered with the prompt."""
    registered: Mapping[str, TakeStep] = field(default_factory=dict[str, TakeStep])
    """Trim steps that packages register, by name."""

    @property
    def limit(self) -> int:
        """The token limit of the whole prompt."""
        return allowed(self.budget.tokens, self.inputs)


def fitted(plan: Plan, fitting: Fitting) -> tuple[Plan, tuple[StepTaken, ...]]:
    """Shorten a plan to its limits and return it with the steps that were taken.

    Sections come first, then components, then the whole prompt. Raises `BudgetExceeded` if the
    ladders do not suffice.
    """
    taken_steps: list[StepTaken] = []
    for climb in _climbs(fitting):
        plan, steps = _climbed(plan, climb, fitting)
        taken_steps += steps
    return plan, tuple(taken_steps)


def _climbs(fitting: Fitting) -> list[Climb]:
    budget, counting, beside = fitting.budget, fitting.counting, fitting.beside
    sections = [
        Climb(
            section.ladder,
            partial(section_size, layer=layer, counting=counting),
            allowed(section.tokens, fitting.inputs),
            Bounds(section=layer),
        )
        for layer, section in budget.sections.items()
    ]
    components = [
        Climb(
            component.ladder,
            partial(component_size, component=name, counting=counting, beside=beside),
            allowed(component.tokens, fitting.inputs),
            Bounds(component=name),
            yields=not component.fixed,
        )
        for name, component in budget.components.items()
    ]
    whole = partial(plan_size, counting=counting, beside=beside)
    return [*sections, *components, Climb(budget.ladder, whole, fitting.limit)]


def _climbed(plan: Plan, climb: Climb, fitting: Fitting) -> tuple[Plan, list[StepTaken]]:
    size = climb.measure(plan)
    steps: list[StepTaken] = []
    for step in climb.ladder if size.tokens > climb.limit else ():
        for on in aims(plan, step.rung):
            before = size
            while size.tokens > climb.limit:
                over = size.tokens - climb.limit
                shorter = taken(plan, step.rung, on, over, fitting.counting, fitting.registered)
                less = climb.measure(shorter)
                # A step that does not shorten is exhausted. This also guarantees termination.
                if less.characters >= size.characters:
                    break
                plan, size = shorter, less
            if size != before:
                steps.append(_noted(step.word, on, climb, before, size))
    if size.tokens > climb.limit and not climb.yields:
        sizes = sizes_of(plan, climb.of, fitting.counting, fitting.beside)
        raise OverBudget(size.tokens, climb.limit, sizes, climb.of)
    return plan, steps


def _noted(word: str, on: str, climb: Climb, before: Size, after: Size) -> StepTaken:
    return StepTaken(
        step=word,
        on=on,
        section=climb.of.section,
        component=climb.of.component,
        before=before.tokens,
        after=after.tokens,
    )


def plan_size(plan: Plan, counting: Counting, beside: int = 0) -> Size:
    """Return the size of the whole prompt."""
    tokens, characters = beside, 0
    for slot in plan:
        if isinstance(slot, HistorySlot):
            tokens += slot.tokens
            characters += slot.characters
        else:
            text = message(slot)
            tokens += counting.count(text)
            characters += len(text)
    return Size(tokens, characters)


def section_size(plan: Plan, layer: str, counting: Counting) -> Size:
    """Return the size of one layer, without delimiters."""
    blocks = (block for slot in plan if isinstance(slot, LayerSlot) for block in slot.blocks)
    text = "".join([block.content for block in blocks if block.layer == layer])
    return Size(counting.count(text), len(text))


def component_size(plan: Plan, component: str, counting: Counting, beside: int = 0) -> Size:
    """Return the size of one component, delimiters and separators included.

    Each text is counted by itself, so that cutting one component does not lengthen another.
    """
    tokens, characters = beside if component == TOOLS_CONTEXT else 0, 0
    for slot in plan:
        if isinstance(slot, LayerSlot):
            texts = [each.text for each in stretches(slot) if each.block.component == component]
            tokens += sum(map(counting.count, texts))
            characters += sum(map(len, texts))
        elif component == HISTORY:
            tokens += slot.tokens
            characters += slot.characters
    return Size(tokens, characters)
