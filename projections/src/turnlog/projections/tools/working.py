"""How a turn was worked out, in one text: what was planned, and what tools gave.

It is made once, as the turn is completed, and recorded; the plans of later turns are told it, in
front of the reply. It is kept short: of each result as much as later turns are told of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

MOST: Final = 16
"""Results that are told of."""
LONG: Final = 1_000
"""Characters of each, its arguments included."""


def worked(goals: Iterable[str], results: Iterable[str]) -> str | None:
    """Tell how a turn was worked out; none where nothing was planned."""
    steps = [f"{number}. {goal}" for number, goal in enumerate(goals, 1)]
    if not steps:
        return None
    return "\n".join(("Planned:", *steps, *_given([*results][-MOST:])))


def _given(results: list[str]) -> Iterator[str]:
    if results:
        yield "Tools gave:"
    for result in results:
        yield result if len(result) <= LONG else f"{result[:LONG]}..."
