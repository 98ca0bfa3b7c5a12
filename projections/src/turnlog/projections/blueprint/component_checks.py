"""Budget checks: ladders name existing layers and keep what must not be left out.

A step names a layer that some call with that budget lists, of the kind that the step works on, and
none that is always kept. A budget that is certainly too small is found before a session opens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from turnlog.projections.blueprint.budget import BudgetSpec, TokenLimit
from turnlog.projections.blueprint.components import STANDARD_COMPONENTS, HISTORY_COMPONENT, QUERY_COMPONENT
from turnlog.projections.blueprint.faults import DocumentPath, BlueprintFinding, suggest_word
from turnlog.projections.blueprint.ladder import CondenseToolList, Ladder, HistoryAction, LadderStep
from turnlog.projections.blueprint.layer import ToolsLayer
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.strict import Name

ComponentFindings = Iterator[BlueprintFinding]


def check_component_budgets(blueprint: Blueprint, path: DocumentPath, budget: BudgetSpec) -> ComponentFindings:
    """Check the components of a budget, and its other steps against the fixed components."""
    under = {"input": QUERY_COMPONENT, **{name: each.component for name, each in blueprint.layers.items()}}
    known = (*STANDARD_COMPONENTS, *under.values())
    for name, component in budget.components.items():
        here = (*path, "components", name)
        if name not in known:
            what = f"nothing is counted under `{name}`"
            yield BlueprintFinding(here, what, suggest_word(name, dict.fromkeys(known)))
        if component.fixed and component.ladder:
            what = f"`{name}` is fixed, so that nothing of it is ever cut"
            yield BlueprintFinding((*here, "ladder"), what, "leave out one of the two")
        if component.fixed and _is_above(component.tokens, budget.tokens):
            what = f"`{name}` may have more than the whole, which has {budget.tokens}"
            yield BlueprintFinding((*here, "tokens"), what, "lower it, or raise `tokens` of the whole")
        yield from _check_component_steps(here, name, component.ladder, under)
        if name not in _find_tool_components(blueprint):
            yield from _check_condense_steps(here, name, component.ladder)
    if budget.components:
        yield from _check_fixed_components(path, budget, under)


def _is_above(limit: TokenLimit, whole: TokenLimit) -> bool:
    """Return whether a limit is above that of the whole prompt for every possible turn."""
    return isinstance(limit, int) and isinstance(whole, int) and limit > whole


def _find_tool_components(blueprint: Blueprint) -> set[str]:
    layers = blueprint.layers.values()
    return {layer.component for layer in layers if isinstance(layer, ToolsLayer)}


def _check_condense_steps(here: DocumentPath, name: Name, ladder: Ladder) -> ComponentFindings:
    """Find steps that condense tools in a component that contains no tools."""
    for rung, step in enumerate(ladder):
        if isinstance(step.action, CondenseToolList) and step.target is None:
            what = f"no layer of tools is counted under `{name}`"
            yield BlueprintFinding((*here, "ladder", rung, step.action_name), what, "leave it out")


def _check_component_steps(here: DocumentPath, name: Name, ladder: Ladder, under: Mapping[str, str]) -> ComponentFindings:
    """Find steps that cannot reduce their component."""
    for rung, step in enumerate(ladder):
        if _get_step_component(step, under) not in {name, None}:
            what = f"it cannot make room in component `{name}`"
            fix = f"name what is counted under `{name}`, or put it on the ladder of the whole"
            yield BlueprintFinding((*here, "ladder", rung, step.action_name), what, fix)


def _check_fixed_components(path: DocumentPath, budget: BudgetSpec, under: Mapping[str, str]) -> ComponentFindings:
    """Find steps that would trim a fixed component."""
    fixed = {name for name, each in budget.components.items() if each.fixed}
    ladders = [(path, budget.ladder)]
    ladders += [((*path, "sections", name), each.ladder) for name, each in budget.sections.items()]
    for here, ladder in ladders:
        for rung, step in enumerate(ladder):
            if (name := _get_step_component(step, under)) in fixed:
                at = (*here, "ladder", rung, step.action_name)
                what = f"it would cut what is counted under `{name}`, which is fixed"
                yield BlueprintFinding(at, what, "leave it out, or the word `fixed`")


def _get_step_component(step: LadderStep, under: Mapping[str, str]) -> str | None:
    """Return the component that a step trims; None if the step does not say."""
    if isinstance(step.action, HistoryAction):
        return HISTORY_COMPONENT
    return under.get(step.target) if step.target else None
