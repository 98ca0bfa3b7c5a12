from __future__ import annotations

from typing import TypedDict

from turnlog.events.call import TokenUsage
from turnlog.events.errors import Refused
from turnlog.projections.audit.whatif.account import WhatIfReport, PromptTotals
from turnlog.projections.audit.whatif.redone import ReassembledCall
from turnlog.projections.window.overflow import BudgetExceeded
from turnlog.services.gateway.payloads.what_if import (
    AlterationCountView,
    PromptAlterationView,
    WhatIfCall,
    LayerSizeView,
    CallRefusalView,
    RefusalCountView,
    PromptTotalsView,
    WhatIfPrompt,
)
from turnlog.services.runtime.prices import PriceTable, compute_cost


class WhatIfFigures(TypedDict):
    """The fields that all what-if totals have."""

    calls: int
    again: int
    same: int
    before: PromptTotalsView
    after: PromptTotalsView
    altered: tuple[AlterationCountView, ...]
    refused: tuple[RefusalCountView, ...]


def compute_figures(found: WhatIfReport, prices: PriceTable) -> WhatIfFigures:
    """Return the totals of a report, with the prices of both sides."""
    return WhatIfFigures(
        calls=found.calls,
        again=found.again,
        same=found.same,
        before=_create_totals_view(found.before, prices),
        after=_create_totals_view(found.after, prices),
        altered=tuple(AlterationCountView.model_validate(each) for each in found.altered),
        refused=tuple(RefusalCountView.model_validate(each) for each in found.refused),
    )


def _create_totals_view(side: PromptTotals, prices: PriceTable) -> PromptTotalsView:
    costs = [
        compute_cost(model, TokenUsage(known="estimated", input_tokens=tokens, output_tokens=0), prices)
        for model, tokens in side.models.items()
    ]
    return PromptTotalsView(
        tokens=side.tokens,
        largest=side.largest,
        prefix=side.prefix,
        models=side.models,
        counters=side.counters,
        micro_dollars=sum(cost.micro_dollars or 0 for cost in costs),
        guessed=any(cost.price == "fallback" for cost in costs),
    )


def create_call_view(each: ReassembledCall) -> WhatIfCall:
    """Return one call with its prompt before and after the change."""
    return WhatIfCall(
        call=each.call,
        turn=each.turn,
        sequence=each.sequence,
        before=WhatIfPrompt.model_validate(each.before),
        after=WhatIfPrompt.model_validate(each.after) if each.after else None,
        altered=tuple(PromptAlterationView.model_validate(one) for one in each.altered),
        refused=_create_refusal_view(each.refused) if each.refused else None,
    )


def _create_refusal_view(refused: Refused) -> CallRefusalView:
    said = CallRefusalView(
        code=refused.code, detail=refused.detail, field=refused.field, fix=refused.fix
    )
    if not isinstance(refused, BudgetExceeded):
        return said
    kept = tuple(LayerSizeView(layer=each.layer, tokens=each.tokens) for each in refused.required_layers)
    over = {
        "over": refused.tokens - refused.limit,
        "limit": refused.limit,
        "section": refused.of.section,
        "component": refused.of.component,
        "kept": kept,
    }
    return said.model_copy(update=over)
