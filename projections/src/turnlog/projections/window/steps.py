"""Taking a step of a ladder: the one place that knows what each of an author's words does.

A step is given a plan and how many tokens are too many, and gives a shorter plan, or the same
when there is nothing left for it to do. What a package registers is given a layer and gives a
layer; it sees nothing else of the prompt.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import assert_never

from turnlog.projections.blueprint.ladder import (
    Compress,
    Drop,
    DropLowest,
    DropOldestPairs,
    LowerTier,
    Registered,
    Replace,
    Rung,
    Trim,
)
from turnlog.projections.window.cuts import compressed, dropped, trimmed
from turnlog.projections.window.history import LeftOut, merged
from turnlog.projections.window.pieces import TakeStep
from turnlog.projections.window.plan import HistorySlot, Plan, on_block
from turnlog.projections.window.tiers import lowered, replaced, without_lowest


def taken(plan: Plan, rung: Rung, over: int, registered: Mapping[str, TakeStep]) -> Plan:
    """Take a step once."""
    match rung:
        case Trim():
            return on_block(plan, rung.layer, partial(trimmed, step=rung))
        case Compress():
            return on_block(plan, rung.layer, partial(compressed, step=rung))
        case LowerTier():
            return on_block(plan, rung.layer, partial(lowered, step=rung))
        case DropLowest():
            return on_block(plan, rung.layer, partial(without_lowest, step=rung))
        case Replace():
            return on_block(plan, rung.layer, partial(replaced, step=rung))
        case Drop():
            return on_block(plan, rung.layer, partial(dropped, step=rung))
        case DropOldestPairs(history=view):
            return tuple(
                _without_oldest(slot, over)
                if isinstance(slot, HistorySlot) and slot.view == view
                else slot
                for slot in plan
            )
        case Registered(name=name, with_=told):
            step = registered[name]
            return on_block(plan, rung.layer, lambda block: step(block, told))
        case _ as never:
            assert_never(never)


def _without_oldest(slot: HistorySlot, over: int) -> HistorySlot:
    """Leave out as many of the oldest turns as save `over` tokens."""
    dropped: list[LeftOut] = []
    for exchange in slot.exchanges:
        if over <= 0:
            break
        dropped.append(LeftOut(exchange.turn, exchange.turn, "drop_oldest_pairs"))
        over -= exchange.tokens
    left_out = merged((*slot.left_out, *dropped))
    return HistorySlot(slot.view, slot.exchanges[len(dropped) :], left_out)
