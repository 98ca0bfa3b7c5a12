from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

MAX_WORK_RESULTS: Final = 16
"""Maximum number of results."""
MAX_WORK_RESULT_CHARACTERS: Final = 1_000
"""Maximum length of each result in characters, with its arguments."""


def format_turn_work(goals: Iterable[str], results: Iterable[str]) -> str | None:
    """Return the plan and the tool results of a turn as one text; None if there was no plan.

    It is made once, when the turn is completed, and recorded. Plans of later turns include it
    before the reply, so each result is limited to the length that later turns get.
    """
    steps = [f"{number}. {goal}" for number, goal in enumerate(goals, 1)]
    if not steps:
        return None
    return "\n".join(("Planned:", *steps, *_iterate_result_lines([*results][-MAX_WORK_RESULTS:])))


def _iterate_result_lines(results: list[str]) -> Iterator[str]:
    if results:
        yield "Tools gave:"
    for result in results:
        yield result if len(result) <= MAX_WORK_RESULT_CHARACTERS else f"{result[:MAX_WORK_RESULT_CHARACTERS]}..."
