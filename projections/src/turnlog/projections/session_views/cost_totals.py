"""What calls cost together, and how well that is known.

A price is known if the table has the very model, or if there is nothing to pay because no model was
called, or a scripted one. Every other price is a guess. A sum is a guess as soon as one part of it
is, and it counts the calls that are not wholly in it, because nobody counted all their tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

GUESSED_PRICES: Final = ("normalised", "fallback")
"""The values of `price` in a recorded cost that were not found under the model's own name."""


@dataclass(frozen=True, slots=True)
class CostTotal:
    """What one call or several cost, and how well that is known."""

    micro_dollars: int | None = 0
    """Millionths of a dollar, as far as known; null if nothing of it is known."""
    guessed: bool = False
    """Whether a price in it is a guess, because no table has that very model."""
    unpriced_calls: int = 0
    """Calls that have an attempt without a price; what such an attempt cost is in no sum."""


NO_COST: Final = CostTotal()
"""The cost of no call at all."""


class PricedAttempt(Protocol):
    """A finished attempt, as an event or a row has its cost."""

    @property
    def micro_dollars(self) -> int | None:
        """Millionths of a dollar; None if its tokens are unknown."""
        ...

    @property
    def price(self) -> str | None:
        """How the model was found in the price table."""
        ...


def is_guessed_price(price: str | None) -> bool:
    """Return whether a recorded price was not found under the model's own name."""
    return price in GUESSED_PRICES


def add_costs(costs: Iterable[CostTotal]) -> CostTotal:
    """Return the cost of several calls or groups of calls."""
    parts = tuple(costs)
    known = [cost.micro_dollars for cost in parts if cost.micro_dollars is not None]
    return CostTotal(
        sum(known) if known or not parts else None,
        any(cost.guessed for cost in parts),
        sum(cost.unpriced_calls for cost in parts),
    )


def sum_call_cost(costs: Iterable[PricedAttempt]) -> CostTotal:
    """Return the cost of one call from those of its finished attempts."""
    attempts = tuple(costs)
    known = [cost.micro_dollars for cost in attempts if cost.micro_dollars is not None]
    return CostTotal(
        sum(known) if known else None,
        any(is_guessed_price(cost.price) for cost in attempts),
        int(len(known) < len(attempts)),
    )
