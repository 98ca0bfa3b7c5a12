"""Budget checks: ladders name existing layers and keep what must not be left out.

A step names a layer that some call with that budget lists, of the kind that the step works on, and
none that is always kept. A budget that is certainly too small is found before a session opens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from turnlog.projections.blueprint.budget import Budget, Limit
from turnlog.projections.blueprint.components import COMPONENTS, HISTORY, QUERY
from turnlog.projections.blueprint.faults import Path, Remark, instead_of
from turnlog.projections.blueprint.ladder import CondenseTools, Ladder, OfHistory, Step
from turnlog.projections.blueprint.layer import ToolsLayer
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.strict import Name

Remarks = Iterator[Remark]


def component_remarks(blueprint: Blueprint, path: Path, budget: Budget) -> Remarks:
    """Check the components of a budget, and its other steps against the fixed components."""
    under = {"input": QUERY, **{name: each.component for name, each in blueprint.layers.items()}}
    known = (*COMPONENTS, *under.values())
    for name, component in budget.components.items():
        here = (*path, "components", name)
        if name not in known:
            what = f"nothing is counted under `{name}`"
            yield Remark(here, what, instead_of(name, dict.fromkeys(known)))
        if component.fixed and component.ladder:
            what = f"`{name}` is fixed, so that nothing of it is ever cut"
            yield Remark((*here, "ladder"), what, "leave out one of the two")
        if component.fixed and _above(component.tokens, budget.tokens):
            what = f"`{name}` may have more than the whole, which has {budget.tokens}"
            yield Remark((*here, "tokens"), what, "lower it, or raise `tokens` of the whole")
        yield from _elsewhere(here, name, component.ladder, under)
        if name not in _telling(blueprint):
            yield from _condensing(here, name, component.ladder)
    if budget.components:
        yield from _cutting(path, budget, under)


def _above(limit: Limit, whole: Limit) -> bool:
    """Return whether a limit is above that of the whole prompt for every possible turn."""
    return isinstance(limit, int) and isinstance(whole, int) and limit > whole


def _telling(blueprint: Blueprint) -> set[str]:
    layers = blueprint.layers.values()
    return {layer.component for layer in layers if isinstance(layer, ToolsLayer)}


def _condensing(here: Path, name: Name, ladder: Ladder) -> Remarks:
    """Find steps that condense tools in a component that contains no tools."""
    for rung, step in enumerate(ladder):
        if isinstance(step.rung, CondenseTools) and step.target is None:
            what = f"no layer of tools is counted under `{name}`"
            yield Remark((*here, "ladder", rung, step.word), what, "leave it out")


def _elsewhere(here: Path, name: Name, ladder: Ladder, under: Mapping[str, str]) -> Remarks:
    """Find steps that cannot reduce their component."""
    for rung, step in enumerate(ladder):
        if _on(step, under) not in {name, None}:
            what = f"it cannot make room in component `{name}`"
            fix = f"name what is counted under `{name}`, or put it on the ladder of the whole"
            yield Remark((*here, "ladder", rung, step.word), what, fix)


def _cutting(path: Path, budget: Budget, under: Mapping[str, str]) -> Remarks:
    """Find steps that would trim a fixed component."""
    fixed = {name for name, each in budget.components.items() if each.fixed}
    ladders = [(path, budget.ladder)]
    ladders += [((*path, "sections", name), each.ladder) for name, each in budget.sections.items()]
    for here, ladder in ladders:
        for rung, step in enumerate(ladder):
            if (name := _on(step, under)) in fixed:
                at = (*here, "ladder", rung, step.word)
                what = f"it would cut what is counted under `{name}`, which is fixed"
                yield Remark(at, what, "leave it out, or the word `fixed`")


def _on(step: Step, under: Mapping[str, str]) -> str | None:
    """Return the component that a step trims; None if the step does not say."""
    if isinstance(step.rung, OfHistory):
        return HISTORY
    return under.get(step.target) if step.target else None
