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
    Compress,
    CondenseRepeats,
    CondenseTools,
    Drop,
    DropLowest,
    DropOldestPairs,
    LowerTier,
    OfHistory,
    Registered,
    Replace,
    Rung,
    Summarise,
    Trim,
)
from turnlog.projections.window.condensing import repeats_told
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.cuts import compressed, dropped, trimmed
from turnlog.projections.window.history import LeftOut, merged
from turnlog.projections.window.pieces import TakeStep
from turnlog.projections.window.plan import HistorySlot, LayerSlot, Plan, on_block, on_view
from turnlog.projections.window.telling import condensed
from turnlog.projections.window.tiers import lowered, replaced, without_lowest


def aims(plan: Plan, rung: Rung) -> tuple[str, ...]:
    """Return the layers or views that a step applies to: the named one, or all of its kind."""
    if isinstance(rung, OfHistory):
        views = [slot.view for slot in plan if isinstance(slot, HistorySlot)]
        return tuple(views) if rung.history is None else (rung.history,)
    if rung.layer is not None:
        return (rung.layer,)
    blocks = [block for slot in plan if isinstance(slot, LayerSlot) for block in slot.blocks]
    return tuple(block.layer for block in blocks if condensed(block) is not block)


def taken(
    plan: Plan,
    rung: Rung,
    on: str,
    over: int,
    counting: Counting,
    registered: Mapping[str, TakeStep],
) -> Plan:
    """Take a step once, on a layer or a view."""
    match rung:
        case Trim():
            return on_block(plan, on, partial(trimmed, step=rung))
        case Compress():
            return on_block(plan, on, partial(compressed, step=rung))
        case LowerTier():
            return on_block(plan, on, partial(lowered, step=rung))
        case DropLowest():
            return on_block(plan, on, partial(without_lowest, step=rung))
        case Replace():
            return on_block(plan, on, partial(replaced, step=rung))
        case Drop():
            return on_block(plan, on, partial(dropped, step=rung))
        case Registered(name=name, with_=told):
            step = registered[name]
            return on_block(plan, on, lambda block: step(block, told))
        case CondenseTools():
            return on_block(plan, on, condensed)
        case DropOldestPairs():
            return on_view(plan, on, partial(_without_oldest, over=over))
        case CondenseRepeats():
            return on_view(plan, on, partial(_with_repeats_told, counting=counting))
        case Summarise():
            return plan
        case _ as never:
            assert_never(never)


def _with_repeats_told(slot: HistorySlot, counting: Counting) -> HistorySlot:
    told = repeats_told(slot.exchanges, counting, "condense_repeats")
    return replace(slot, exchanges=told)


def _without_oldest(slot: HistorySlot, over: int) -> HistorySlot:
    """Drop as many of the oldest turns as save `over` tokens, and at last the summary."""
    if slot.recap and not slot.exchanges:
        return replace(slot, recap=replace(slot.recap, stands=False))
    dropped: list[LeftOut] = []
    for exchange in slot.exchanges:
        if over <= 0:
            break
        dropped.append(LeftOut(exchange.turn, exchange.last, "drop_oldest_pairs"))
        over -= exchange.tokens
    left_out = merged((*slot.left_out, *dropped))
    return replace(slot, exchanges=slot.exchanges[len(dropped) :], left_out=left_out)
