"""Costs are counted by model and kind of price; a cost that nobody knows is not 0."""

from __future__ import annotations

from tests.support.processes.measured_figures import MeasuredFigures
from turnlog.events.model.attempt_figures import AttemptCost
from turnlog.services.worker.attempts.cost_metrics import (
    COST_METRIC,
    UNKNOWN_METRIC,
    CostMetrics,
)

EXACT = AttemptCost(micro_dollars=250, price="exact", table="t")
GUESSED = AttemptCost(micro_dollars=40, price="fallback", table="t")
UNKNOWN = AttemptCost(price="unknown", table="t")


def test_costs_of_a_hundred_attempts_are_one_series_a_model_and_kind_of_price() -> None:
    measured = MeasuredFigures()
    metrics = CostMetrics(measured.meter)
    for _ in range(100):
        metrics.record_cost("openai/gpt-4o-mini", EXACT)
        metrics.record_cost("openai/ours", GUESSED)
    assert measured.read_values(COST_METRIC, "turnlog.price") == {"exact": 25_000, "fallback": 4000}
    models = [labels["gen_ai.request.model"] for labels, _ in measured.list_points(COST_METRIC)]
    assert sorted(models) == ["gpt-4o-mini", "ours"]
    assert measured.list_points(UNKNOWN_METRIC) == []


def test_attempt_of_unknown_cost_is_counted_apart() -> None:
    measured = MeasuredFigures()
    CostMetrics(measured.meter).record_cost("openai/gpt-4o-mini", UNKNOWN)
    assert measured.list_points(COST_METRIC) == []
    assert measured.read_values(UNKNOWN_METRIC, "gen_ai.request.model") == {"gpt-4o-mini": 1}
