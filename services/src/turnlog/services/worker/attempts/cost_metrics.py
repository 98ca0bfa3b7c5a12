"""What attempts cost, as a metric: what the record got of each, by model and kind of price.

A bill is made from the record, which names session, user and version. The metric shows within
seconds that a model costs more than it did, which is what an alert is for.
"""

from __future__ import annotations

from typing import Final

from opentelemetry.metrics import Meter, get_meter

from turnlog.events.model.attempt_figures import AttemptCost
from turnlog.projections.prompt.assembly_inputs import parse_provider

COST_METRIC: Final = "turnlog.cost"

UNKNOWN_METRIC: Final = "turnlog.cost.unknown_attempts"


class CostMetrics:
    """Counts the cost of attempts once it is recorded."""

    def __init__(self, meter: Meter | None = None) -> None:
        """Create the instruments; by default on the meter of what the process exports."""
        used = meter or get_meter("turnlog")
        self._cost = used.create_counter(
            COST_METRIC, unit="microdollars", description="Recorded cost of attempts"
        )
        self._unknown = used.create_counter(
            UNKNOWN_METRIC,
            unit="{attempt}",
            description="Attempts whose cost nobody knows, and which are in no cost",
        )

    def record_cost(self, model: str, cost: AttemptCost) -> None:
        """Count what an attempt at a model cost; a cost that is not known is not counted as 0."""
        labels = {
            "gen_ai.provider.name": parse_provider(model),
            "gen_ai.request.model": model.partition("/")[2] or model,
        }
        if cost.micro_dollars is None:
            self._unknown.add(1, labels)
        else:
            self._cost.add(cost.micro_dollars, {**labels, "turnlog.price": cost.price})
