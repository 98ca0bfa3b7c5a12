"""What calls cost together: known, guessed, or not known of all of them."""

from __future__ import annotations

import pytest

from turnlog.events.model.attempt_figures import AttemptCost
from turnlog.projections.read_models.call_costs import (
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
def test_a_call_is_guessed_when_one_attempt_is_and_unpriced_when_one_has_no_price(
    costs: tuple[AttemptCost, ...], expected: CostTotal
) -> None:
    assert sum_call_cost(costs) == expected


def test_a_sum_is_guessed_when_one_part_is_and_counts_the_calls_without_a_price() -> None:
    calls = [sum_call_cost(each) for each in ([KNOWN], [FLAT], [UNCOUNTED, KNOWN], [UNCOUNTED])]
    assert add_costs(calls) == CostTotal(43, guessed=True, unpriced_calls=2)
    assert add_costs([calls[3]]) == CostTotal(None, guessed=False, unpriced_calls=1)
    assert add_costs([]) == NO_COST
