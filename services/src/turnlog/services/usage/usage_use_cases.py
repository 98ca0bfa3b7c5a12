"""Reports of what turns used, in all and by group, and of what retrieval saved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnlog.contract.usage_payloads import CostSum, UsageReport, UsageView
from turnlog.events.model.attempt_figures import TokenUsage
from turnlog.projections.session_views.cost_totals import CostTotal, add_costs, is_guessed_price
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.row_types import UsageFigures, UsageRow
from turnlog.projections.store.read.usage_queries import (
    UsageFilter,
    UsageGrouping,
    add_figures,
    list_usage,
)
from turnlog.services.model_facts.model_prices import ModelPrices, PriceTable, compute_cost


@dataclass(frozen=True, slots=True)
class UsageUseCases:
    """Reports what turns used."""

    store: ReadModelStore
    prices: ModelPrices

    async def report_usage(
        self, tenant: str, sought: UsageFilter, group_by: UsageGrouping = "all"
    ) -> UsageReport:
        """Return turns, tokens, cost, and what retrieval saved, in all and for each group."""
        async with self.store.open_reader() as connection:
            rows = await list_usage(connection, tenant, group_by, sought)
        prices = await self.prices.load_table()
        found = _collect_rows(rows, lambda row: row.group) if group_by != "all" else {}
        groups = sorted(found.items(), key=lambda each: each[0] or "")
        return UsageReport(
            total=_sum_rows(None, rows, prices),
            groups=tuple(_sum_rows(name, found, prices) for name, found in groups),
            models=_count_turns(rows, lambda row: row.model),
            profiles=_count_turns(rows, lambda row: row.profile),
        )


def _sum_rows(group: str | None, rows: Sequence[UsageRow], prices: PriceTable) -> UsageView:
    saved = add_costs(
        _compute_output_cost(row.model, row.figures.saved_tokens, prices)
        for row in rows
        if row.model is not None and row.figures.saved_tokens
    )
    return _create_usage(group, add_figures(row.figures for row in rows), saved)


def _compute_output_cost(model: str, tokens: int, prices: PriceTable) -> CostTotal:
    """Return the cost of this many output tokens of a model, without prompts."""
    usage = TokenUsage(input_tokens=0, output_tokens=tokens, known="reported")
    cost = compute_cost(model, usage, prices)
    return CostTotal(cost.micro_dollars, is_guessed_price(cost.price))


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


def _create_usage(group: str | None, used: UsageFigures, saved_cost: CostTotal) -> UsageView:
    """Return what a group used as responses have it."""
    ended = used.completed + used.failed
    return UsageView(
        group=group,
        turns=used.turns,
        completed=used.completed,
        failed=used.failed,
        cancelled=used.cancelled,
        open=used.turns - ended - used.cancelled,
        guided=used.guided,
        activation_rate=used.guided / used.turns if used.turns else None,
        success_rate=used.completed / ended if ended else None,
        input_tokens=used.input_tokens,
        cached_tokens=used.cached_tokens,
        cache_write_tokens=used.cache_write_tokens,
        output_tokens=used.output_tokens,
        total_tokens=used.input_tokens + used.output_tokens,
        unknown_attempts=used.unknown_attempts,
        saved_tokens=used.saved_tokens,
        saving_turns=used.saving_turns,
        average_saved_tokens=used.saved_tokens / used.saving_turns if used.saving_turns else None,
        saved_cost=CostSum.model_validate(saved_cost),
        cost=CostSum.model_validate(used.cost),
    )
