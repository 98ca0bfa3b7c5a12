from __future__ import annotations

from collections.abc import Iterator

from turnlog.projections.blueprint.budget import Budget, ByInput, CharactersPerToken, Limit
from turnlog.projections.blueprint.component_checks import component_remarks
from turnlog.projections.blueprint.faults import Path, Remark, instead_of
from turnlog.projections.blueprint.ladder import (
    Compress,
    CondenseTools,
    DropLowest,
    Ladder,
    LowerTier,
    OfHistory,
    Replace,
    Step,
    Trim,
)
from turnlog.projections.blueprint.layer import SegmentsLayer, TextLayer, ToolsLayer
from turnlog.projections.blueprint.schema import Blueprint, CallSpec, HistoryMessages
from turnlog.projections.blueprint.slots import filled_slots
from turnlog.projections.blueprint.strict import Name
from turnlog.projections.window.counting import ByCharacters

Remarks = Iterator[Remark]

_OF_SEGMENTS = (LowerTier, DropLowest, Replace)
_OF_TEXTS = (Trim, Compress)
_INPUT = "input"


def budget_remarks(blueprint: Blueprint) -> Remarks:
    """Check every budget, and every call against the budget it names."""
    for name, budget in blueprint.budget.items():
        path = ("budget", name)
        users = [call for call in blueprint.calls.values() if call.budget == name]
        yield from _limit(blueprint, (*path, "tokens"), budget.tokens)
        yield from _sections(blueprint, path, budget, users)
        yield from _components(blueprint, path, budget, users)
        yield from _ladder(blueprint, path, budget.ladder, users)
    for name, call in blueprint.calls.items():
        yield from _too_small(blueprint, ("calls", name, "budget"), call)


def _limit(blueprint: Blueprint, path: Path, limit: Limit) -> Remarks:
    if not isinstance(limit, ByInput):
        return
    value = blueprint.inputs.get(limit.input)
    at = (*path, "input")
    if value is None:
        fix = instead_of(limit.input, blueprint.inputs)
        yield Remark(at, f"there is no input `{limit.input}`", fix)
    elif value.type != "int" or value.min is None or value.min < 1:
        what = f"`{limit.input}` may be something else than a number of tokens"
        yield Remark(at, what, f"say `{{type: int, min: 1}}` of inputs.{limit.input}")


def _sections(blueprint: Blueprint, path: Path, budget: Budget, users: list[CallSpec]) -> Remarks:
    for layer, section in budget.sections.items():
        here = (*path, "sections", layer)
        yield from _listed(blueprint, here, layer, users)
        yield from _limit(blueprint, (*here, "tokens"), section.tokens)
        yield from _ladder(blueprint, here, section.ladder, users)
        for rung, step in enumerate(section.ladder):
            if step.target != layer:
                at = (*here, "ladder", rung, step.word)
                what = f"it cannot make room in section `{layer}`"
                yield Remark(at, what, f"name `{layer}`, or put it on the ladder of the whole")


def _components(blueprint: Blueprint, path: Path, budget: Budget, users: list[CallSpec]) -> Remarks:
    for name, component in budget.components.items():
        here = (*path, "components", name)
        yield from _limit(blueprint, (*here, "tokens"), component.tokens)
        yield from _ladder(blueprint, here, component.ladder, users)
    yield from component_remarks(blueprint, path, budget)


def _ladder(blueprint: Blueprint, path: Path, ladder: Ladder, users: list[CallSpec]) -> Remarks:
    for rung, step in enumerate(ladder):
        at = (*path, "ladder", rung, step.word)
        if isinstance(step.rung, OfHistory):
            for view in sorted(_views(users)) if step.target is None else (step.target,):
                yield from _view(blueprint, (*at, "history"), path, view, users)
        elif step.target is not None:
            yield from _layer(blueprint, at, step, step.target, users)


def _views(users: list[CallSpec]) -> set[Name]:
    slots = (slot for call in users for slot in call.messages)
    return {slot.history for slot in slots if isinstance(slot, HistoryMessages)}


def _view(blueprint: Blueprint, at: Path, path: Path, view: Name, users: list[CallSpec]) -> Remarks:
    listed = _views(users)
    if view not in blueprint.history:
        yield Remark(at, f"there is no history `{view}`", instead_of(view, blueprint.history))
    elif users and view not in listed:
        what = f"no call with budget `{path[1]}` lists the history `{view}`"
        yield Remark(at, what, instead_of(view, listed))
    if view in blueprint.history and blueprint.view(view).all:
        yield Remark(at, f"`{view}` is `all: true`, it is never cut", "name another view")


def _layer(
    blueprint: Blueprint, at: Path, step: Step, name: Name, users: list[CallSpec]
) -> Remarks:
    rung = step.rung
    yield from _listed(blueprint, (*at, "layer"), name, users)
    layer = blueprint.layers.get(name)
    leaves = isinstance(rung, CondenseTools)
    if (layer and layer.keep and not leaves) or (
        name == _INPUT and not isinstance(rung, _OF_TEXTS)
    ):
        yield Remark((*at, "layer"), f"`{name}` is always kept", "name another layer")
    if isinstance(rung, _OF_SEGMENTS) and not isinstance(layer, SegmentsLayer):
        yield Remark((*at, "layer"), f"`{name}` has no segments", "name a layer that has")
    if leaves and not isinstance(layer, ToolsLayer):
        yield Remark((*at, "layer"), f"`{name}` tells of no tools", "name a layer that does")
    if isinstance(rung, _OF_TEXTS) and isinstance(layer, SegmentsLayer):
        what = f"`{name}` is made of segments, which are whole or not there"
        yield Remark((*at, "layer"), what, "use lower_tier, drop_lowest, replace or drop")
    if isinstance(rung, Replace) and isinstance(layer, SegmentsLayer):
        kind = rung.with_.type
        if kind not in layer.segments.except_:
            what = f"segments of type `{kind}` stand in `{name}` already"
            fix = f"say `except: [{kind}]` of layers.{name}.segments"
            yield Remark((*at, "with", "type"), what, fix)


def _listed(blueprint: Blueprint, at: Path, layer: Name, users: list[CallSpec]) -> Remarks:
    known = (*blueprint.layers, _INPUT)
    listed = {name for call in users for name in call.layers}
    if layer not in known:
        yield Remark(at, f"there is no layer `{layer}`", instead_of(layer, known))
    elif users and layer not in listed:
        yield Remark(at, f"no call with this budget lists `{layer}`", instead_of(layer, listed))


def _too_small(blueprint: Blueprint, path: Path, call: CallSpec) -> Remarks:
    budget = blueprint.budget.get(call.budget or "")
    if budget is None or isinstance(budget.tokens, ByInput):
        return
    if not isinstance(budget.counter, CharactersPerToken):
        return  # The token count of a text is unknown here without its vocabulary.
    listed = [blueprint.layers.get(name) for name in call.layers]
    fixed = [layer for layer in listed if isinstance(layer, TextLayer) and layer.keep == "always"]
    counting = ByCharacters(budget.counter.chars_per_token)
    least = sum(counting.count(filled_slots(layer.text, {})) for layer in fixed)
    if least > budget.tokens:
        what = f"its `keep: always` texts take {least} tokens, `{call.budget}` has {budget.tokens}"
        yield Remark(path, what, f"give the budget more than {least} tokens")
