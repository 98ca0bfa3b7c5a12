"""The route for consumption: what turns used, in all and by group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from turnlog.events.ids import USER_NAME_PATTERN
from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.projections.read_models.call_costs import CostSum, add_costs, is_guessed_price
from turnlog.projections.store.read.row_types import UsageRow
from turnlog.projections.store.read.usage_queries import (
    UsageFilter,
    UsageGrouping,
    add_figures,
    list_usage,
)
from turnlog.services.api.usage_payloads import UsageReport, UsageView, create_usage
from turnlog.services.blueprints.model_prices import PriceTable, compute_cost
from turnlog.services.gateway.dependencies import Dependencies, RequestTenant
from turnlog.services.gateway.http.request_checks import QueryTime, convert_to_utc

router = APIRouter()


@router.get("/v1/usage", summary="Show what turns used")
async def show_usage(
    tenant: RequestTenant,
    deps: Dependencies,
    group_by: Annotated[
        UsageGrouping, Query(description="What the turns of a group have in common")
    ] = "all",
    user: Annotated[
        str | None, Query(pattern=USER_NAME_PATTERN, description="Only turns of this user")
    ] = None,
    since: Annotated[
        QueryTime | None, Query(description="Only turns submitted at or after this time")
    ] = None,
    until: Annotated[
        QueryTime | None, Query(description="Only turns submitted before this time")
    ] = None,
) -> UsageReport:
    """Return turns, tokens, cost, and what retrieval saved, in all and for each group."""
    sought = UsageFilter(
        user,
        convert_to_utc(since, "since") if since else None,
        convert_to_utc(until, "until") if until else None,
    )
    async with deps.store.open_reader() as connection:
        rows = await list_usage(connection, tenant, group_by, sought)
    prices = await deps.prices.load_table()
    groups = _collect_rows(rows, lambda row: row.group) if group_by != "all" else {}
    return UsageReport(
        total=_sum_rows(None, rows, prices),
        groups=tuple(_sum_rows(name, found, prices) for name, found in groups.items()),
        models=_count_turns(rows, lambda row: row.model),
        profiles=_count_turns(rows, lambda row: row.profile),
    )


def _sum_rows(group: str | None, rows: Sequence[UsageRow], prices: PriceTable) -> UsageView:
    saved = add_costs(
        _compute_output_cost(row.model, row.figures.saved_tokens, prices)
        for row in rows
        if row.model is not None and row.figures.saved_tokens
    )
    return create_usage(group, add_figures(row.figures for row in rows), saved)


def _compute_output_cost(model: str, tokens: int, prices: PriceTable) -> CostSum:
    """Return what so many tokens of a model's answers cost, the prompts left aside."""
    usage = TokenUsage(input_tokens=0, output_tokens=tokens, known="reported")
    cost = compute_cost(model, usage, prices)
    return CostSum(cost.micro_dollars, is_guessed_price(cost.price))


def _count_turns(
    rows: Sequence[UsageRow], get_name: Callable[[UsageRow], str | None]
) -> dict[str, int]:
    return {
        name: sum(row.figures.turns for row in found)
        for name, found in sorted(
            _collect_rows(rows, get_name).items(), key=lambda each: str(each[0])
        )
        if name is not None
    }


def _collect_rows(
    rows: Sequence[UsageRow], get_name: Callable[[UsageRow], str | None]
) -> dict[str | None, list[UsageRow]]:
    """Return the rows by what they have in common, in the order of the first of each."""
    found: defaultdict[str | None, list[UsageRow]] = defaultdict(list)
    for row in rows:
        found[get_name(row)].append(row)
    return found
