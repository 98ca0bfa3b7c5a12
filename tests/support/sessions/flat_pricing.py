"""Prices and dialects of no model at all, so that each attempt costs the flat guess."""

from __future__ import annotations

from turnlog.services.model_facts.attempt_pricing import AttemptPricing
from turnlog.services.model_facts.model_dialects import DialectTable
from turnlog.services.model_facts.model_prices import PriceTable


def create_flat_pricing(version: str) -> AttemptPricing:
    """Return the pricing of an empty table of this version."""
    prices = PriceTable(version, {})

    async def load_prices() -> PriceTable:
        return prices

    async def load_dialects() -> DialectTable:
        return DialectTable({}, {}, prices)

    return AttemptPricing(load_prices, load_dialects)
