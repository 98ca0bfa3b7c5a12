"""What an attempt took, as it is recorded: tokens, money and time.

Known from the provider, estimated by our own count, or unknown; never zero for want of knowing.
"""

from __future__ import annotations

from turnlog.events import call as recorded
from turnlog.projections.session.commands import Spent
from turnlog.services.worker.model.estimate import account
from turnlog.services.worker.model.exchange import ModelRequest, Reported, Usage
from turnlog.services.worker.model.prices import PriceTable, price


def spent(
    request: ModelRequest,
    usage: Usage | None,
    text: str,
    prices: PriceTable,
    timings: recorded.Timings,
) -> Spent:
    """Account for an attempt that was made."""
    accounted = account(usage, request, text)
    known = "reported" if isinstance(accounted, Reported) else "estimated"
    counted = recorded.Usage(
        known=known,
        input_tokens=accounted.usage.input_tokens,
        output_tokens=accounted.usage.output_tokens,
        cached_tokens=accounted.usage.cached_input_tokens,
    )
    return Spent(counted, cost_of(request.model, counted, prices), timings)


def cost_of(model: str, usage: recorded.Usage, prices: PriceTable) -> recorded.Cost:
    """Price recorded tokens."""
    if usage.input_tokens is None or usage.output_tokens is None:
        return recorded.Cost(price="unknown", table=prices.version)
    counted = Usage(usage.input_tokens, usage.output_tokens, usage.cached_tokens)
    cost = price(model, counted, prices)
    return recorded.Cost(micro_dollars=cost.micro_dollars, price=cost.source, table=cost.table)
