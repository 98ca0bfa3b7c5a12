from __future__ import annotations

from turnlog.events import call as recorded
from turnlog.projections.session.commands import Spent
from turnlog.services.runtime.prices import PriceTable, cost_of
from turnlog.services.worker.model.estimate import account
from turnlog.services.worker.model.exchange import ModelRequest, Reported, Usage


def spent(
    request: ModelRequest,
    usage: Usage | None,
    text: str,
    prices: PriceTable,
    timings: recorded.Timings,
) -> Spent:
    """Return tokens, cost and time of an attempt that was made.

    Tokens are reported by the provider or estimated; an unknown count is never recorded as zero.
    """
    accounted = account(usage, request, text)
    known = "reported" if isinstance(accounted, Reported) else "estimated"
    counted = recorded.Usage(
        known=known,
        input_tokens=accounted.usage.input_tokens,
        output_tokens=accounted.usage.output_tokens,
        cached_tokens=accounted.usage.cached_input_tokens,
    )
    return Spent(counted, cost_of(request.model, counted, prices), timings)
