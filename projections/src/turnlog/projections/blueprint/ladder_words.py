"""The ladders of a blueprint in words: each limit, and what happens above it, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import (
    BudgetShare,
    BudgetSpec,
    CompressLayer,
    CondenseRepeats,
    CondenseResults,
    CondenseToolList,
    DropImages,
    DropLayer,
    DropLowestPriority,
    DropOldestPairs,
    InputLimit,
    Ladder,
    LadderAction,
    Limit,
    LimitHits,
    LowerSegmentTier,
    RegisteredStep,
    ReplaceSegments,
    SummariseHistory,
    TrimLayer,
)
from turnlog.projections.blueprint.schema.call_specs import HistoryMessageSlot
from turnlog.projections.blueprint.schema.strict_model import Name


def describe_ladders(blueprint: Blueprint) -> tuple[str, ...]:
    """Return a line for each limit of each budget, in the order in which they are enforced."""
    return tuple(
        line
        for name, budget in blueprint.budget.items()
        for line in _describe_budget(blueprint, name, budget)
    )


def _describe_budget(blueprint: Blueprint, name: Name, budget: BudgetSpec) -> Iterator[str]:
    for layer, section in budget.sections.items():
        where = f"{name}, layer {layer} above {_format_limit(section.tokens)} tokens"
        yield f"{where}: {_describe_ladder(blueprint, name, section.ladder)}"
    for each, component in budget.components.items():
        where = f"{name}, component {each} above {_format_limit(component.tokens)} tokens"
        end = "refuse the call" if component.fixed else "leave it to the whole"
        yield f"{where}: {_describe_ladder(blueprint, name, component.ladder, end)}"
    where = f"{name}, the whole prompt above {_format_limit(budget.tokens)} tokens"
    if (overflow := budget.overflow) is None:
        yield f"{where}: {_describe_ladder(blueprint, name, budget.ladder)}"
        return
    end = f"let it have {overflow.tokens:,}"
    yield f"{where}: {_describe_ladder(blueprint, name, budget.ladder, end)}"
    where = f"{name}, the whole prompt above {overflow.tokens:,} tokens"
    yield f"{where}: {_describe_ladder(blueprint, name, overflow.ladder)}"


def _format_limit(limit: Limit) -> str:
    if isinstance(limit, InputLimit):
        return f"{limit.default:,} (or inputs.{limit.input})"
    return f"{limit:,}"


def _describe_ladder(
    blueprint: Blueprint, budget: Name, ladder: Ladder, end: str = "refuse the call"
) -> str:
    steps = (_describe_action(blueprint, budget, step.action) for step in ladder)
    return ", then ".join([*steps, end])


def _describe_action(blueprint: Blueprint, budget: Name, action: LadderAction) -> str:
    match action:
        case TrimLayer(layer=layer, chars=lengths):
            return f"trim {layer} to {' and '.join(map(_format_limit, lengths))} characters"
        case CompressLayer(layer=layer, chars=length):
            return f"compress {layer} to {_format_limit(length)} characters"
        case LowerSegmentTier(layer=layer):
            return f"lower the tiers of {layer}"
        case DropLowestPriority(layer=layer):
            return f"drop the items of {layer} with the lowest priority"
        case ReplaceSegments(layer=layer, with_=kind):
            return f"replace the segments of {layer} by {kind.type}"
        case DropLayer(layer=layer):
            return f"drop {layer}"
        case RegisteredStep(name=name, layer=layer):
            return f"apply {name} to {layer}"
        case CondenseToolList(layer=layer):
            return f"name the tools of {layer}" if layer else "name the tools"
        case CondenseResults(layer=layer, to=form):
            shown = "leave out results" if form == "nothing" else f"condense results to {form}"
            return f"{shown} in {layer}"
        case LimitHits(layer=layer, k=most):
            entries = "1 entry" if most == 1 else f"{most} entries"
            return f"limit {layer or 'what was retrieved'} to {entries}"
        case CondenseRepeats(history=view):
            return f"condense repeated questions{_format_view(view)}"
        case SummariseHistory(history=view):
            return f"have a model summarise {_describe_summaries(blueprint, budget, view)}"
        case DropImages(to=share):
            return f"drop the oldest pictures{_format_share(share)}"
        case DropOldestPairs(history=view, keep_messages=kept, to=share):
            but = f" but the last {kept} messages" if kept else ""
            return f"drop the oldest turns{_format_view(view)}{but}{_format_share(share)}"
        case _ as never:
            assert_never(never)


def _format_view(view: Name | None) -> str:
    return f" of {view}" if view else ""


def _format_share(share: BudgetShare | None) -> str:
    return f" down to {share}" if share else ""


def _describe_summaries(blueprint: Blueprint, budget: Name, view: Name | None) -> str:
    """Name the views that a step has summarised in calls with a budget, with their own limits."""
    calls = (call for call in blueprint.calls.values() if call.budget == budget)
    slots = (slot for call in calls for slot in call.messages)
    listed = dict.fromkeys(slot.history for slot in slots if isinstance(slot, HistoryMessageSlot))
    words: list[str] = []
    for name in listed:
        summary = blueprint.resolve_view(name).summary
        if summary and view in {None, name}:
            limit = summary.above_tokens
            words.append(f"{name} (above {limit:,} tokens of it)" if limit else name)
    return " and ".join(words) or "nothing"
