"""What an attempt cost, with the terms by which its provider caches prompts.

The terms are recorded beside the cost, so that a bill of lost caches can be computed from the log
alone and does not change with a table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from turnlog.events.model.attempt_figures import AttemptCost, CacheTerms, TokenUsage
from turnlog.services.model_facts.model_dialects import DialectTable
from turnlog.services.model_facts.model_prices import (
    PriceTable,
    compute_cache_saving,
    compute_cost,
)


@dataclass(frozen=True, slots=True)
class AttemptPricing:
    """The prices of models and the dialects of their servers."""

    load_prices: Callable[[], Awaitable[PriceTable]]
    load_dialects: Callable[[], Awaitable[DialectTable]]

    async def compute_attempt_cost(self, model: str, usage: TokenUsage) -> AttemptCost:
        """Return the cost of an attempt; with the cache's terms if the provider counted tokens."""
        prices = await self.load_prices()
        cost = compute_cost(model, usage, prices)
        spec = (await self.load_dialects()).find_dialect(model).prompt_cache
        if spec is None or usage.known != "reported":
            return cost
        saving = compute_cache_saving(model, usage, prices)
        terms = CacheTerms(
            minimum=spec.minimum, step=spec.step, lifetime=spec.lifetime, spared=saving
        )
        return cost.model_copy(update={"cache": terms})
