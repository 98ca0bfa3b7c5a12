"""Which tools the steps of a plan can be offered: those whose definitions have room in their call.

The tools of a step are sent whole beside its messages and nothing shortens them. So a plan is
fitted to them as soon as it is known, before anything runs: a turn whose tools have run does not
fail for the schema of the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.tools.parsed_plan import ParsedPlan, ParsedStep


@dataclass(frozen=True, slots=True)
class StepToolRoom:
    """What the call of a step has room for beside what it always includes."""

    tokens: int
    sizes: Mapping[str, int]
    """The tokens of the definition of each tool, in the order in which they are offered."""
    counting: TokenCounter


def fit_step_tools(plan: ParsedPlan, room: StepToolRoom) -> ParsedPlan:
    """Leave out the tools of each step that have no room, as repairs; later tools go first.

    A step that names no tools is offered all of them, and here those that fit. A step whose tools
    all have no room is left out.
    """
    steps, repairs = list[ParsedStep](), [*plan.repairs]
    for place, step in enumerate(plan.steps):
        wanted = step.tools or tuple(room.sizes)
        left = room.tokens - room.counting.count_tokens(step.goal)
        fitting = _select_fitting(wanted, room.sizes, left)
        if step.result_sequence is not None or len(fitting) == len(wanted):
            steps.append(step)
            continue
        missing = {name: room.sizes[name] for name in wanted if name not in fitting}
        repairs.append(
            f"steps.{place}: {_name_tools(missing)} with {sum(missing.values())} tokens left out, "
            f"a call of the step has room for {max(0, left)}"
        )
        if fitting:
            steps.append(replace(step, tools=fitting))
        else:
            repairs.append(f"steps.{place}: left out, none of its tools has room")
    return ParsedPlan(tuple(steps), tuple(repairs))


def _select_fitting(
    wanted: tuple[str, ...], sizes: Mapping[str, int], tokens: int
) -> tuple[str, ...]:
    selected: list[str] = []
    for name in wanted:
        if sizes[name] <= tokens:
            selected.append(name)
            tokens -= sizes[name]
    return tuple(selected)


def _name_tools(missing: Mapping[str, int]) -> str:
    first, *others = missing
    return f"{first} and {len(others)} more" if others else first
