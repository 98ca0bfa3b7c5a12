"""The ladder: what goes when a prompt does not fit, in the order its author wrote.

A step is repeated until it changes nothing; only then comes the next. A prompt that fits is
returned untouched, and one that cannot be made to fit is refused with what stands in the way.
"""

from __future__ import annotations

from dataclasses import replace

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema import Budget, CharactersPerToken, Step
from turnlog.projections.window.history import LeftOut, merged
from turnlog.projections.window.plan import (
    HistorySlot,
    Plan,
    Slot,
    piece_tokens,
    plan_tokens,
)


def fitted(plan: Plan, budget: Budget | None, tools: int = 0) -> Plan:
    """Cut a plan down to its budget, beside the tokens of tools that are offered with it.

    Raises `Refused` `over-budget` when that cannot be.
    """
    if budget is None:
        return plan
    tokens = plan_tokens(plan, budget.counter) + tools
    for step in budget.ladder:
        if tokens > budget.tokens:
            plan = _taken(plan, step, over=tokens - budget.tokens)
            tokens = plan_tokens(plan, budget.counter) + tools
    if tokens > budget.tokens:
        raise _over(plan, budget, tokens, tools)
    return plan


def _taken(plan: Plan, step: Step, over: int) -> Plan:
    """Repeat a step until it has saved `over` tokens or changes nothing any more."""
    view = step.drop_oldest_pairs.history
    return tuple(
        _without_oldest(slot, over) if isinstance(slot, HistorySlot) and slot.view == view else slot
        for slot in plan
    )


def _without_oldest(slot: HistorySlot, over: int) -> HistorySlot:
    dropped: list[LeftOut] = []
    for exchange in slot.exchanges:
        if over <= 0:
            break
        dropped.append(LeftOut(exchange.turn, exchange.turn, "drop_oldest_pairs"))
        over -= exchange.tokens
    left_out = merged((*slot.left_out, *dropped))
    return replace(slot, exchanges=slot.exchanges[len(dropped) :], left_out=left_out)


def _over(plan: Plan, budget: Budget, tokens: int, tools: int) -> Refused:
    sizes = [size for slot in plan for size in _sizes(slot, budget.counter)]
    sizes += [f"tools {tools}"] if tools else []
    return Refused(
        "over-budget",
        f"{tokens} tokens do not fit {budget.tokens}: {', '.join(sizes)}",
        field="budget",
        fix=f"shorten the input or raise the budget by {tokens - budget.tokens} tokens",
    )


def _sizes(slot: Slot, counter: CharactersPerToken) -> list[str]:
    if isinstance(slot, HistorySlot):
        said = sum(exchange.tokens for exchange in slot.exchanges)
        return [f"history {said}"] if said else []
    return [f"{piece.layer} {piece_tokens(piece, counter)}" for piece in slot.pieces if piece.text]
