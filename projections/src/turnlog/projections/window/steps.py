"""Apply the trim ladders of a budget to a plan.

`apply_step` is the one place that knows what each step of a blueprint does. It is given a plan and
the number of excess tokens and returns a shorter plan, or the same plan if the step is exhausted. A
registered step of a package sees one layer and nothing else of the prompt.

Steps are taken in the author's order, and each is repeated until it shortens nothing any more. A
prompt that fits is returned unchanged. One that cannot be made to fit is refused with the sizes of
what is in the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import assert_never

from turnlog.projections.blueprint.ladder import (
    CompressLayer,
    CondenseRepeats,
    CondenseToolList,
    DropLayer,
    DropLowestPriority,
    DropOldestPairs,
    LowerSegmentTier,
    HistoryAction,
    RegisteredStep,
    ReplaceSegments,
    LadderAction,
    SummariseHistory,
    TrimLayer,
)
from turnlog.projections.window.condensing import condense_repeats
from turnlog.projections.window.counting import TokenCounter
from turnlog.projections.window.cuts import compress_block, drop_block, trim_block
from turnlog.projections.window.history import ExcludedTurns, merge_excluded
from turnlog.projections.window.pieces import ApplyRegisteredStep
from turnlog.projections.window.plan import PlannedHistory, PlannedMessage, PromptPlan, update_layer, update_view
from turnlog.projections.window.telling import condense_tools
from turnlog.projections.window.tiers import lower_tier, replace_segments, drop_lowest


def list_step_targets(plan: PromptPlan, rung: LadderAction) -> tuple[str, ...]:
    """Return the layers or views that a step applies to: the named one, or all of its kind."""
    if isinstance(rung, HistoryAction):
        views = [slot.view for slot in plan if isinstance(slot, PlannedHistory)]
        return tuple(views) if rung.history is None else (rung.history,)
    if rung.layer is not None:
        return (rung.layer,)
    blocks = [block for slot in plan if isinstance(slot, PlannedMessage) for block in slot.blocks]
    return tuple(block.layer for block in blocks if condense_tools(block) is not block)


def apply_step(
    plan: PromptPlan,
    rung: LadderAction,
    on: str,
    over: int,
    counting: TokenCounter,
    registered: Mapping[str, ApplyRegisteredStep],
) -> PromptPlan:
    """Take a step once, on a layer or a view."""
    match rung:
        case TrimLayer():
            return update_layer(plan, on, partial(trim_block, step=rung))
        case CompressLayer():
            return update_layer(plan, on, partial(compress_block, step=rung))
        case LowerSegmentTier():
            return update_layer(plan, on, partial(lower_tier, step=rung))
        case DropLowestPriority():
            return update_layer(plan, on, partial(drop_lowest, step=rung))
        case ReplaceSegments():
            return update_layer(plan, on, partial(replace_segments, step=rung))
        case DropLayer():
            return update_layer(plan, on, partial(drop_block, step=rung))
        case RegisteredStep(name=name, with_=told):
            step = registered[name]
            return update_layer(plan, on, lambda block: step(block, told))
        case CondenseToolList():
            return update_layer(plan, on, condense_tools)
        case DropOldestPairs():
            return update_view(plan, on, partial(_drop_oldest_turns, over=over))
        case CondenseRepeats():
            return update_view(plan, on, partial(_condense_slot_repeats, counting=counting))
        case SummariseHistory():
            return plan
        case _ as never:
            assert_never(never)


def _condense_slot_repeats(slot: PlannedHistory, counting: TokenCounter) -> PlannedHistory:
    told = condense_repeats(slot.exchanges, counting, "condense_repeats")
    return replace(slot, exchanges=told)


def _drop_oldest_turns(slot: PlannedHistory, over: int) -> PlannedHistory:
    """Drop as many of the oldest turns as save `over` tokens, and at last the summary."""
    if slot.summary and not slot.exchanges:
        return replace(slot, recap=replace(slot.summary, stands=False))
    dropped: list[ExcludedTurns] = []
    for exchange in slot.exchanges:
        if over <= 0:
            break
        dropped.append(ExcludedTurns(exchange.turn, exchange.last_turn, "drop_oldest_pairs"))
        over -= exchange.tokens
    left_out = merge_excluded((*slot.left_out, *dropped))
    return replace(slot, exchanges=slot.exchanges[len(dropped) :], left_out=left_out)
