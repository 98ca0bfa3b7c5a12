"""Budget checks: ladders name existing layers and keep what must not be left out.

A step names a layer that some call with that budget lists, of the kind that the step works on, and
none that is always kept. A budget that is certainly too small is found before a session opens.
"""

from __future__ import annotations

from collections.abc import Mapping

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetSpec,
    CharacterCounterSpec,
    CompressLayer,
    CondenseResults,
    CondenseToolList,
    DropImages,
    DropLowestPriority,
    HistoryAction,
    InputLimit,
    Ladder,
    LadderAction,
    LadderStep,
    Limit,
    LimitHits,
    LowerSegmentTier,
    ReplaceSegments,
    TrimLayer,
)
from turnlog.projections.blueprint.schema.call_specs import CallSpec, HistoryMessageSlot
from turnlog.projections.blueprint.schema.layer_specs import (
    HISTORY_COMPONENT,
    INPUT_LAYER,
    MEDIA_COMPONENT,
    OUTPUT_COMPONENT,
    QUERY_COMPONENT,
    REASONING_COMPONENT,
    ROUNDS_COMPONENT,
    STANDARD_COMPONENTS,
    TOOL_RESULTS_LAYER,
    LayerSpec,
    ResultsLayer,
    RetrievalLayer,
    SegmentsLayer,
    StepLayer,
    TextLayer,
    ToolsLayer,
)
from turnlog.projections.blueprint.schema.strict_model import Name
from turnlog.projections.blueprint.template_slots import fill_slots
from turnlog.projections.blueprint.token_counters import CharacterCounter
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    DocumentPath,
    check_known_name,
    suggest_word,
)


def check_component_budgets(
    blueprint: Blueprint, path: DocumentPath, budget: BudgetSpec
) -> BlueprintFindings:
    """Check the components of a budget, and its other steps against the fixed components."""
    under = {
        INPUT_LAYER: QUERY_COMPONENT,
        TOOL_RESULTS_LAYER: ROUNDS_COMPONENT,
        **{name: each.component for name, each in blueprint.layers.items()},
    }
    built_in = (MEDIA_COMPONENT, OUTPUT_COMPONENT, ROUNDS_COMPONENT, REASONING_COMPONENT)
    known = (*STANDARD_COMPONENTS, *built_in, *under.values())
    for name, component in budget.components.items():
        component_path = (*path, "components", name)
        if name not in known:
            what = f"no layer is counted under `{name}`"
            yield BlueprintFinding(component_path, what, suggest_word(name, dict.fromkeys(known)))
        if component.fixed and component.ladder:
            what = f"`{name}` is fixed, so that nothing of it is ever cut"
            yield BlueprintFinding((*component_path, "ladder"), what, "leave out one of the two")
        if component.fixed and _is_above(component.tokens, budget.tokens):
            what = f"`{name}` may have more than the whole, which has {budget.tokens}"
            yield BlueprintFinding(
                (*component_path, "tokens"), what, "lower it, or raise `tokens` of the whole"
            )
        yield from _check_component_steps(component_path, name, component.ladder, under)
        if name not in _find_tool_components(blueprint):
            yield from _check_condense_steps(component_path, name, component.ladder)
        if name not in _find_retrieval_components(blueprint):
            yield from _check_hit_steps(component_path, name, component.ladder)
    if budget.components:
        yield from _check_fixed_components(path, budget, under)


def _is_above(limit: Limit, prompt_limit: Limit) -> bool:
    """Return whether a limit is above that of the whole prompt for every possible turn."""
    return isinstance(limit, int) and isinstance(prompt_limit, int) and limit > prompt_limit


def _find_tool_components(blueprint: Blueprint) -> set[str]:
    layers = blueprint.layers.values()
    return {layer.component for layer in layers if isinstance(layer, ToolsLayer)}


def _find_retrieval_components(blueprint: Blueprint) -> set[str]:
    layers = blueprint.layers.values()
    return {layer.component for layer in layers if isinstance(layer, RetrievalLayer)}


def _check_condense_steps(path: DocumentPath, name: Name, ladder: Ladder) -> BlueprintFindings:
    """Find steps that condense tools in a component that contains no tools."""
    for step_index, step in enumerate(ladder):
        if isinstance(step.action, CondenseToolList) and step.target is None:
            what = f"no layer of tools is counted under `{name}`"
            yield BlueprintFinding(
                (*path, "ladder", step_index, step.action_name), what, "leave it out"
            )


def _check_hit_steps(path: DocumentPath, name: Name, ladder: Ladder) -> BlueprintFindings:
    """Find steps that limit what was retrieved in a component that contains none of it."""
    for step_index, step in enumerate(ladder):
        if isinstance(step.action, LimitHits) and step.target is None:
            what = f"no layer of retrieved entries is counted under `{name}`"
            yield BlueprintFinding(
                (*path, "ladder", step_index, step.action_name), what, "leave it out"
            )


def _check_component_steps(
    path: DocumentPath, name: Name, ladder: Ladder, under: Mapping[str, str]
) -> BlueprintFindings:
    """Find steps that cannot reduce their component."""
    for step_index, step in enumerate(ladder):
        if _get_step_component(step, under) not in {name, None}:
            what = f"it cannot make room in component `{name}`"
            fix = f"name what is counted under `{name}`, or put it on the ladder of the whole"
            yield BlueprintFinding((*path, "ladder", step_index, step.action_name), what, fix)


def _check_fixed_components(
    path: DocumentPath, budget: BudgetSpec, under: Mapping[str, str]
) -> BlueprintFindings:
    """Find steps that would trim a fixed component."""
    fixed = {name for name, each in budget.components.items() if each.fixed}
    ladders = [(path, budget.ladder)]
    ladders += [((*path, "overflow"), budget.overflow.ladder)] if budget.overflow else []
    ladders += [((*path, "sections", name), each.ladder) for name, each in budget.sections.items()]
    for ladder_path, ladder in ladders:
        for step_index, step in enumerate(ladder):
            if (name := _get_step_component(step, under)) in fixed:
                at = (*ladder_path, "ladder", step_index, step.action_name)
                what = f"it would trim `{name}`, which is fixed"
                yield BlueprintFinding(at, what, "leave it out, or the word `fixed`")


def _get_step_component(step: LadderStep, under: Mapping[str, str]) -> str | None:
    """Return the component that a step trims; None if the step does not say."""
    if isinstance(step.action, HistoryAction):
        return HISTORY_COMPONENT
    if isinstance(step.action, DropImages):
        return MEDIA_COMPONENT
    return under.get(step.target) if step.target else None


_SEGMENT_ACTIONS = (LowerSegmentTier, DropLowestPriority, ReplaceSegments)

_TEXT_ACTIONS = (TrimLayer, CompressLayer)


def check_budgets(blueprint: Blueprint) -> BlueprintFindings:
    """Check every budget, and every call against the budget it names."""
    for name, budget in blueprint.budget.items():
        path = ("budget", name)
        users = [call for call in blueprint.calls.values() if call.budget == name]
        yield from _check_limit(blueprint, (*path, "tokens"), budget.tokens)
        yield from _check_sections(blueprint, path, budget, users)
        yield from _check_components(blueprint, path, budget, users)
        yield from _check_ladder(blueprint, path, budget.ladder, users)
        if (overflow := budget.overflow) is not None:
            overflow_path = (*path, "overflow")
            if isinstance(budget.tokens, int) and overflow.tokens <= budget.tokens:
                what = f"{overflow.tokens} is not more than the {budget.tokens} of the budget"
                fix = "raise it, or leave out `overflow`"
                yield BlueprintFinding((*overflow_path, "tokens"), what, fix)
            yield from _check_ladder(blueprint, overflow_path, overflow.ladder, users)
    for name, call in blueprint.calls.items():
        yield from _check_minimum_size(blueprint, ("calls", name, "budget"), call)


def _check_limit(blueprint: Blueprint, path: DocumentPath, limit: Limit) -> BlueprintFindings:
    if not isinstance(limit, InputLimit):
        return
    value = blueprint.inputs.get(limit.input)
    at = (*path, "input")
    yield from check_known_name(at, "input", limit.input, blueprint.inputs)
    if value and (value.type != "int" or value.min is None or value.min < 1):
        what = f"`{limit.input}` may be something else than a number from 1 on"
        yield BlueprintFinding(at, what, f"say `{{type: int, min: 1}}` of inputs.{limit.input}")


def _check_sections(
    blueprint: Blueprint, path: DocumentPath, budget: BudgetSpec, users: list[CallSpec]
) -> BlueprintFindings:
    for layer, section in budget.sections.items():
        section_path = (*path, "sections", layer)
        yield from _check_layer_listed(blueprint, section_path, layer, users)
        yield from _check_limit(blueprint, (*section_path, "tokens"), section.tokens)
        yield from _check_ladder(blueprint, section_path, section.ladder, users)
        for step_index, step in enumerate(section.ladder):
            if step.target != layer:
                at = (*section_path, "ladder", step_index, step.action_name)
                what = f"it cannot make room in section `{layer}`"
                yield BlueprintFinding(
                    at, what, f"name `{layer}`, or put it on the ladder of the whole"
                )


def _check_components(
    blueprint: Blueprint, path: DocumentPath, budget: BudgetSpec, users: list[CallSpec]
) -> BlueprintFindings:
    for name, component in budget.components.items():
        component_path = (*path, "components", name)
        yield from _check_limit(blueprint, (*component_path, "tokens"), component.tokens)
        yield from _check_ladder(blueprint, component_path, component.ladder, users)
    yield from check_component_budgets(blueprint, path, budget)


def _check_ladder(
    blueprint: Blueprint, path: DocumentPath, ladder: Ladder, users: list[CallSpec]
) -> BlueprintFindings:
    for step_index, step in enumerate(ladder):
        at = (*path, "ladder", step_index, step.action_name)
        if isinstance(step.action, HistoryAction):
            for view in sorted(_collect_views(users)) if step.target is None else (step.target,):
                yield from _check_history_step(
                    blueprint=blueprint, at=(*at, "history"), path=path, view=view, users=users
                )
        elif step.target is not None:
            yield from _check_layer_step(
                blueprint=blueprint, at=at, step=step, name=step.target, users=users
            )
        for place, limit in _list_step_limits(step.action):
            yield from _check_limit(blueprint, (*at, "chars", *place), limit)


def _list_step_limits(action: LadderAction) -> list[tuple[DocumentPath, Limit]]:
    """Return the lengths of a step, each with its place under `chars`."""
    match action:
        case TrimLayer(chars=lengths):
            return [((place,), length) for place, length in enumerate(lengths)]
        case CompressLayer(chars=length):
            return [((), length)]
        case _:
            return []


def _collect_views(users: list[CallSpec]) -> set[Name]:
    slots = (slot for call in users for slot in call.messages)
    return {slot.history for slot in slots if isinstance(slot, HistoryMessageSlot)}


def _check_history_step(
    blueprint: Blueprint, at: DocumentPath, path: DocumentPath, view: Name, users: list[CallSpec]
) -> BlueprintFindings:
    listed = _collect_views(users)
    yield from check_known_name(at, "history", view, blueprint.history)
    if view in blueprint.history and users and view not in listed:
        what = f"no call with budget `{path[1]}` lists the history `{view}`"
        yield BlueprintFinding(at, what, suggest_word(view, listed))
    if view in blueprint.history and blueprint.resolve_view(view).all:
        yield BlueprintFinding(at, f"`{view}` is `all: true`, it is never cut", "name another view")


def _check_layer_step(
    blueprint: Blueprint, at: DocumentPath, step: LadderStep, name: Name, users: list[CallSpec]
) -> BlueprintFindings:
    action = step.action
    if name == TOOL_RESULTS_LAYER:
        yield from _check_rounds_step(blueprint, at, action, users)
        return
    yield from _check_layer_listed(blueprint, (*at, "layer"), name, users)
    layer = blueprint.layers.get(name)
    leaves = isinstance(action, CondenseToolList)
    if (layer and layer.keep and not leaves) or (
        name == INPUT_LAYER and not isinstance(action, _TEXT_ACTIONS)
    ):
        yield BlueprintFinding((*at, "layer"), f"`{name}` is always kept", "name another layer")
    if isinstance(action, _SEGMENT_ACTIONS) and not isinstance(layer, SegmentsLayer):
        yield BlueprintFinding((*at, "layer"), f"`{name}` has no segments", "name a layer that has")
    if leaves and not isinstance(layer, ToolsLayer):
        yield BlueprintFinding(
            (*at, "layer"), f"`{name}` tells of no tools", "name a layer that does"
        )
    if isinstance(action, LimitHits) and not isinstance(layer, RetrievalLayer):
        what = f"`{name}` retrieves nothing"
        yield BlueprintFinding((*at, "layer"), what, "name a retrieval layer")
    if isinstance(action, CondenseResults) and not _has_results(layer):
        what = f"`{name}` has no tool results"
        yield BlueprintFinding((*at, "layer"), what, "name a layer of results")
    if isinstance(action, _TEXT_ACTIONS) and isinstance(layer, SegmentsLayer):
        what = f"`{name}` is made of segments, which are whole or not there"
        yield BlueprintFinding((*at, "layer"), what, "use lower_tier, drop_lowest, replace or drop")
    if isinstance(action, ReplaceSegments) and isinstance(layer, SegmentsLayer):
        kind = action.with_.type
        if kind not in layer.segments.except_:
            what = f"segments of type `{kind}` stand in `{name}` already"
            fix = f"say `except: [{kind}]` of layers.{name}.segments"
            yield BlueprintFinding((*at, "with", "type"), what, fix)


def _check_rounds_step(
    blueprint: Blueprint, at: DocumentPath, action: LadderAction, users: list[CallSpec]
) -> BlueprintFindings:
    loops = [each for each in blueprint.profiles.values() if each.has_rounds]
    named = {call for each in loops for call in blueprint.list_reply_calls(each)}
    if users and not any(blueprint.calls.get(name) in users for name in named):
        what = f"no call with this budget has `{TOOL_RESULTS_LAYER}`"
        fix = "name a layer that it lists, or give its profile the program `loop`"
        yield BlueprintFinding((*at, "layer"), what, fix)
    elif not isinstance(action, CondenseResults) or action.to == "nothing":
        what = "a tool call keeps its result, so that this step cannot leave it out"
        fix = "use condense_results to `summary`, `sample` or `digest`"
        yield BlueprintFinding((*at, "layer"), what, fix)


def _has_results(layer: LayerSpec | None) -> bool:
    if isinstance(layer, StepLayer):
        return layer.step == "results"
    return isinstance(layer, ResultsLayer)


def _check_layer_listed(
    blueprint: Blueprint, at: DocumentPath, layer: Name, users: list[CallSpec]
) -> BlueprintFindings:
    known = (*blueprint.layers, INPUT_LAYER)
    listed = {name for call in users for name in call.layers}
    yield from check_known_name(at, "layer", layer, known)
    if layer in known and users and layer not in listed:
        yield BlueprintFinding(
            at, f"no call with this budget lists `{layer}`", suggest_word(layer, listed)
        )


def _check_minimum_size(
    blueprint: Blueprint, path: DocumentPath, call: CallSpec
) -> BlueprintFindings:
    budget = blueprint.budget.get(call.budget or "")
    if budget is None or isinstance(budget.tokens, InputLimit):
        return
    if not isinstance(budget.counter, CharacterCounterSpec):
        return  # The token count of a text is unknown here without its vocabulary.
    listed = [blueprint.layers.get(name) for name in call.layers]
    fixed = [layer for layer in listed if isinstance(layer, TextLayer) and layer.keep == "always"]
    counting = CharacterCounter(budget.counter.chars_per_token)
    least = sum(counting.count_tokens(fill_slots(layer.text, {})) for layer in fixed)
    if least > budget.tokens:
        what = f"its `keep: always` texts take {least} tokens, `{call.budget}` has {budget.tokens}"
        yield BlueprintFinding(path, what, f"give the budget more than {least} tokens")
