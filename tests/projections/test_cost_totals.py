"""What calls cost together: known, guessed, or not known of all of them."""

from __future__ import annotations

import pytest

from turnlog.events.model.attempt_figures import AttemptCost
from turnlog.projections.session_views.cost_totals import (
    NO_COST,
    CostTotal,
    add_costs,
    sum_call_cost,
)

KNOWN = AttemptCost(micro_dollars=20, price="exact", table="t")
WITHOUT_REGION = AttemptCost(micro_dollars=5, price="normalised", table="t")
FLAT = AttemptCost(micro_dollars=3, price="fallback", table="t")
UNCOUNTED = AttemptCost(price="unknown", table="none")


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        ((KNOWN,), CostTotal(20, guessed=False, unpriced_calls=0)),
        ((KNOWN, FLAT), CostTotal(23, guessed=True, unpriced_calls=0)),
        ((KNOWN, WITHOUT_REGION), CostTotal(25, guessed=True, unpriced_calls=0)),
        ((UNCOUNTED, KNOWN), CostTotal(20, guessed=False, unpriced_calls=1)),
        ((UNCOUNTED, UNCOUNTED), CostTotal(None, guessed=False, unpriced_calls=1)),
        ((), CostTotal(None, guessed=False, unpriced_calls=0)),
    ],
)
def test_call_cost_is_guessed_or_unpriced_if_one_attempt_is(
    costs: tuple[AttemptCost, ...], expected: CostTotal
) -> None:
    assert sum_call_cost(costs) == expected


def test_cost_sum_is_guessed_if_one_call_is_and_counts_unpriced_calls() -> None:
    calls = [sum_call_cost(each) for each in ([KNOWN], [FLAT], [UNCOUNTED, KNOWN], [UNCOUNTED])]
    assert add_costs(calls) == CostTotal(43, guessed=True, unpriced_calls=2)
    assert add_costs([calls[3]]) == CostTotal(None, guessed=False, unpriced_calls=1)
    assert add_costs([]) == NO_COST
