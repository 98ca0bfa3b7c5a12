"""Parses a plan: the steps of a model's validated answer, and the repairs they needed.

A schema defines its form like that of any other answer. Here the plan is checked against what no
schema knows: which tools exist, and how many steps are allowed. What is too much is cut, what is
unknown is left out, and either is a repair. A step that loops over a result of the previous turn
becomes one step for each row of that result.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from pydantic import JsonValue

from turnlog.events.storable_text import replace_unstorable
from turnlog.projections.blueprint.storable_json import cut_text
from turnlog.projections.structured_output.json_repair import ValidatedAnswer


def _build_plan_schema(
    goal: JsonValue, tools: JsonValue, of_objects: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """Build a schema of plans from those of a goal and of its tools, and a rule of all objects."""

    def build_object(required: str, properties: dict[str, JsonValue]) -> dict[str, JsonValue]:
        named: dict[str, JsonValue] = {"required": [required], "properties": properties}
        return {"type": "object", **of_objects, **named}

    string: JsonValue = {"type": "string"}
    loop = build_object("source", {"source": string})
    fields: dict[str, JsonValue] = {"goal": goal, "tools": tools, "from": string, "loop": loop}
    steps: JsonValue = {"type": "array", "items": build_object("goal", fields)}
    return build_object("steps", {"steps": steps})


PLAN_SCHEMA: Final = _build_plan_schema({"type": "string", "pattern": r"\S"}, {"type": "array"}, {})
"""The JSON Schema of a plan: steps, each with a goal and either the tools it may use or the result
of the previous turn that answers it, or the one whose rows it loops over.
"""

PLAN_OUTPUT_SCHEMA: Final = _build_plan_schema(
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}},
    {"additionalProperties": False},
)
"""The plan that a model is asked for. It is narrower than `PLAN_SCHEMA`, by which the answer is
validated: what is too much there is left out as a repair.
"""

MAX_GOAL_CHARACTERS: Final = 1_000
"""Maximum length of the goal of a step; every prompt of the step includes it."""

MAX_ROW_CHARACTERS: Final = 400
"""Maximum length of the row of a looping step, within its goal."""

_STEP_FIELDS: Final = ("goal", "tools", "from", "loop")


@dataclass(frozen=True, slots=True)
class ParsedStep:
    """One step of a plan."""

    goal: str
    tools: tuple[str, ...] = ()
    """The existing tools that the step names."""
    result_sequence: int | None = None
    """Sequence of the earlier result that answers the step, or None."""
    loop_sequence: int | None = None
    """Sequence of the earlier result whose rows the step loops over, or None."""


@dataclass(frozen=True, slots=True)
class ParsedPlan:
    """A plan, and the repairs it needed."""

    steps: tuple[ParsedStep, ...]
    repairs: tuple[str, ...] = ()


def parse_plan(
    answer: ValidatedAnswer,
    tools: Mapping[str, str],
    max_steps: int,
    results: Mapping[str, int] = {},
) -> ParsedPlan:
    """Parse a plan of at most `max_steps` steps.

    `tools` maps the names that models know tools by to their own.
    `results` maps the names of the previous turn's results to their sequences.
    """
    plan = cast("dict[str, Any]", answer.value)
    answer_steps = cast("list[dict[str, Any]]", plan["steps"])
    repairs = [*_list_unknown_fields("", plan, ("steps",))]
    if len(answer_steps) > max_steps:
        repairs.append(f"steps: {len(answer_steps)} of them, cut to {max_steps}")
    steps: list[ParsedStep] = []
    for place, step in enumerate(answer_steps[:max_steps]):
        repairs += _list_unknown_fields(f"steps.{place}: ", step, _STEP_FIELDS)
        named = tuple(_filter_known_tools(place, step.get("tools", ()), tools, repairs))
        done_by = _find_result(place, step.get("from", ""), results, repairs)
        loop = _find_result(place, step.get("loop", {}).get("source", ""), results, repairs)
        if done_by is not None and (named or loop is not None):
            repairs.append(
                f"steps.{place}: `from` beside {'tools' if named else 'a loop'}, left out"
            )
            done_by = None
        goal = replace_unstorable(step["goal"]).strip()
        if len(goal) > MAX_GOAL_CHARACTERS:
            repairs.append(f"steps.{place}: goal of {len(goal)} characters, cut")
        steps.append(ParsedStep(goal[:MAX_GOAL_CHARACTERS], named, done_by, loop))
    return ParsedPlan(tuple(steps), tuple(repairs))


def expand_loops(
    plan: ParsedPlan, rows_by_sequence: Mapping[int, Sequence[str]], max_steps: int
) -> ParsedPlan:
    """Replace each looping step by one for each row of its source, at most `max_steps` in all."""
    repairs, steps = [*plan.repairs], list[ParsedStep]()
    for place, step in enumerate(plan.steps):
        rows = rows_by_sequence.get(step.loop_sequence or 0, ())
        if step.loop_sequence is None:
            steps.append(step)
        elif not rows:
            repairs.append(f"steps.{place}: its source has no rows, the loop is left out")
            steps.append(replace(step, loop_sequence=None))
        else:
            # Every later step keeps a place of its own
            room = max(1, max_steps - len(steps) - (len(plan.steps) - place - 1))
            if len(rows) > room:
                repairs.append(f"steps.{place}: a loop over {len(rows)} rows, cut to {room}")
            shown = [cut_text(row, MAX_ROW_CHARACTERS) for row in rows[:room]]
            steps += [
                replace(step, goal=f"{step.goal}\nRow {number} of {len(rows)}: {row}")
                for number, row in enumerate(shown, 1)
            ]
    return ParsedPlan(tuple(steps), tuple(repairs))


def _list_unknown_fields(
    where: str, found: Mapping[str, JsonValue], known: Container[str]
) -> Iterator[str]:
    for name in found:
        if name not in known:
            yield f"{where}unknown field {name[:64]!r}, left out"


def _find_result(
    place: int, name: str, results: Mapping[str, int], repairs: list[str]
) -> int | None:
    """Return the sequence of the result a step refers to; note an unknown name and return None."""
    if name and name not in results:
        repairs.append(f"steps.{place}: there is no result {name[:64]!r}")
    return results.get(name)


def _filter_known_tools(
    place: int, named: list[JsonValue], tools: Mapping[str, str], repairs: list[str]
) -> Iterator[str]:
    for name in named:
        if isinstance(name, str) and name in tools:
            yield tools[name]
        else:
            repairs.append(f"steps.{place}: there is no tool {str(name)[:64]!r}")
