from __future__ import annotations

from turnlog.events import call as recorded
from turnlog.projections.session.commands import AttemptUsage
from turnlog.services.runtime.prices import PriceTable, compute_cost
from turnlog.services.worker.model.estimate import estimate_usage
from turnlog.services.worker.model.exchange import ModelRequest, ReportedUsage, ModelUsage


def compute_spent(
    request: ModelRequest,
    usage: ModelUsage | None,
    text: str,
    prices: PriceTable,
    timings: recorded.AttemptTimings,
) -> AttemptUsage:
    """Return tokens, cost and time of an attempt that was made.

    Tokens are reported by the provider or estimated; an unknown count is never recorded as zero.
    """
    accounted = estimate_usage(usage, request, text)
    known = "reported" if isinstance(accounted, ReportedUsage) else "estimated"
    counted = recorded.TokenUsage(
        known=known,
        input_tokens=accounted.usage.input_tokens,
        output_tokens=accounted.usage.output_tokens,
        cached_tokens=accounted.usage.cached_input_tokens,
    )
    return AttemptUsage(counted, compute_cost(request.model, counted, prices), timings)
