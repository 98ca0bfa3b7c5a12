from __future__ import annotations

from typing import TypedDict

from turnlog.events.call import Usage
from turnlog.events.errors import Refused
from turnlog.projections.audit.whatif.account import Account, Side
from turnlog.projections.audit.whatif.redone import Redone
from turnlog.projections.window.overflow import OverBudget
from turnlog.services.gateway.payloads.what_if import (
    AlteredOftenView,
    AlteredView,
    CallSupposed,
    LayerSizeView,
    MisfitView,
    RefusedOftenView,
    SideView,
    SupposedPrompt,
)
from turnlog.services.runtime.prices import PriceTable, cost_of


class Figures(TypedDict):
    """The fields that all what-if totals have."""

    calls: int
    again: int
    same: int
    before: SideView
    after: SideView
    altered: tuple[AlteredOftenView, ...]
    refused: tuple[RefusedOftenView, ...]


def figures(found: Account, prices: PriceTable) -> Figures:
    """Return the totals of a report, with the prices of both sides."""
    return Figures(
        calls=found.calls,
        again=found.again,
        same=found.same,
        before=_side(found.before, prices),
        after=_side(found.after, prices),
        altered=tuple(AlteredOftenView.model_validate(each) for each in found.altered),
        refused=tuple(RefusedOftenView.model_validate(each) for each in found.refused),
    )


def _side(side: Side, prices: PriceTable) -> SideView:
    costs = [
        cost_of(model, Usage(known="estimated", input_tokens=tokens, output_tokens=0), prices)
        for model, tokens in side.models.items()
    ]
    return SideView(
        tokens=side.tokens,
        largest=side.largest,
        prefix=side.prefix,
        models=side.models,
        counters=side.counters,
        micro_dollars=sum(cost.micro_dollars or 0 for cost in costs),
        guessed=any(cost.price == "fallback" for cost in costs),
    )


def call_view(each: Redone) -> CallSupposed:
    """Return one call with its prompt before and after the change."""
    return CallSupposed(
        call=each.call,
        turn=each.turn,
        sequence=each.sequence,
        before=SupposedPrompt.model_validate(each.before),
        after=SupposedPrompt.model_validate(each.after) if each.after else None,
        altered=tuple(AlteredView.model_validate(one) for one in each.altered),
        refused=_misfit(each.refused) if each.refused else None,
    )


def _misfit(refused: Refused) -> MisfitView:
    said = MisfitView(
        code=refused.code, detail=refused.detail, field=refused.field, fix=refused.fix
    )
    if not isinstance(refused, OverBudget):
        return said
    kept = tuple(LayerSizeView(layer=each.layer, tokens=each.tokens) for each in refused.kept)
    over = {
        "over": refused.tokens - refused.limit,
        "limit": refused.limit,
        "section": refused.of.section,
        "component": refused.of.component,
        "kept": kept,
    }
    return said.model_copy(update=over)
