"""Parses a plan: the steps of a model's validated answer, and the repairs they needed.

A schema defines its form like that of any other answer. Here the plan is checked against what no
schema knows: which tools exist, and how many steps are allowed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import JsonValue

from turnlog.projections.blueprint.storable_json import replace_unstorable
from turnlog.projections.structured_output.json_repair import InvalidAnswer, ValidatedAnswer

PLAN_SCHEMA: Final[dict[str, JsonValue]] = {
    "type": "object",
    "required": ["steps"],
    "properties": {
        "steps": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["goal"],
                "properties": {
                    "goal": {"type": "string", "pattern": r"\S"},
                    "tools": {"type": "array"},
                    "from": {"type": "string"},
                },
            },
        }
    },
}
"""The JSON Schema of a plan: steps, each with a goal and either the tools it may use or the result
of the previous turn that answers it.
"""


@dataclass(frozen=True, slots=True)
class ParsedStep:
    """One step of a plan."""

    goal: str
    tools: tuple[str, ...] = ()
    """The existing tools that the step names."""
    result_sequence: int | None = None
    """Sequence of the earlier result that answers the step, or None."""


@dataclass(frozen=True, slots=True)
class ParsedPlan:
    """A plan, and the repairs it needed."""

    steps: tuple[ParsedStep, ...]
    repairs: tuple[str, ...] = ()


def parse_plan(
    answer: ValidatedAnswer, tools: Container[str], max_steps: int, results: Mapping[str, int] = {}
) -> ParsedPlan:
    """Parse a plan of at most `max_steps` steps; raise `InvalidAnswer`.

    `results` maps the names of the previous turn's results to their sequences.
    """
    said = cast("list[dict[str, Any]]", cast("dict[str, Any]", answer.value)["steps"])
    if len(said) > max_steps:
        raise InvalidAnswer(f"it has {len(said)} steps, {max_steps} are allowed")
    repairs: list[str] = []
    steps: list[ParsedStep] = []
    for place, step in enumerate(said):
        named = tuple(_filter_known_tools(place, step.get("tools", ()), tools, repairs))
        done_by = _find_result(place, step.get("from", ""), results, repairs)
        if named and done_by is not None:
            repairs.append(f"steps.{place}: `from` beside tools, left out")
            done_by = None
        steps.append(ParsedStep(replace_unstorable(step["goal"]).strip(), named, done_by))
    return ParsedPlan(tuple(steps), tuple(repairs))


def _find_result(
    place: int, name: str, results: Mapping[str, int], repairs: list[str]
) -> int | None:
    """Return the sequence of the result a step refers to; note an unknown name and return None."""
    if name and name not in results:
        repairs.append(f"steps.{place}: there is no result {name[:64]!r}")
    return results.get(name)


def _filter_known_tools(
    place: int, named: list[JsonValue], tools: Container[str], repairs: list[str]
) -> Iterator[str]:
    for name in named:
        if isinstance(name, str) and name in tools:
            yield name
        else:
            repairs.append(f"steps.{place}: there is no tool {str(name)[:64]!r}")
