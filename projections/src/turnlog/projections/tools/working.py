from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

MOST: Final = 16
"""Maximum number of results."""
LONG: Final = 1_000
"""Maximum length of each result in characters, with its arguments."""


def worked(goals: Iterable[str], results: Iterable[str]) -> str | None:
    """Return the plan and the tool results of a turn as one text; None if there was no plan.

    It is made once, when the turn is completed, and recorded. Plans of later turns include it
    before the reply, so each result is limited to the length that later turns get.
    """
    steps = [f"{number}. {goal}" for number, goal in enumerate(goals, 1)]
    if not steps:
        return None
    return "\n".join(("Planned:", *steps, *_given([*results][-MOST:])))


def _given(results: list[str]) -> Iterator[str]:
    if results:
        yield "Tools gave:"
    for result in results:
        yield result if len(result) <= LONG else f"{result[:LONG]}..."
