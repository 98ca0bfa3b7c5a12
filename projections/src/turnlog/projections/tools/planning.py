"""Reading a plan: what a model wrote becomes steps, and what had to be mended is said.

Its form is a schema like that of any other answer. What no schema can know is looked at here: which
tools there are, and how many steps are allowed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import JsonValue

from turnlog.projections.blueprint.storable import mended
from turnlog.projections.structured.finding import Unfit
from turnlog.projections.structured.fitting import Fitted

PLAN: Final[dict[str, JsonValue]] = {
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
"""The form of a plan: steps, each with a goal and the tools it may take, or with the result of the
turn before that it is done by."""


@dataclass(frozen=True, slots=True)
class Intended:
    """One step as a model means it."""

    goal: str
    tools: tuple[str, ...] = ()
    """Those it named, of those there are."""
    given: int | None = None
    """Sequence of the result that it is done by."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what had to be left out of it."""

    steps: tuple[Intended, ...]
    repairs: tuple[str, ...] = ()


def plan_in(
    fitted: Fitted, tools: Container[str], most: int, given: Mapping[str, int] = {}
) -> Planned:
    """Read a plan of at most so many steps; raises `Unfit`.

    `given` names the results of the turn before, each with the sequence it stands at.
    """
    said = cast("list[dict[str, Any]]", cast("dict[str, Any]", fitted.value)["steps"])
    if len(said) > most:
        raise Unfit(f"it has {len(said)} steps, {most} are allowed")
    repairs: list[str] = []
    steps: list[Intended] = []
    for place, step in enumerate(said):
        named = tuple(_tools(place, step.get("tools", ()), tools, repairs))
        done_by = _given(place, step.get("from", ""), given, repairs)
        if named and done_by is not None:
            repairs.append(f"steps.{place}: `from` beside tools, left out")
            done_by = None
        steps.append(Intended(mended(step["goal"]).strip(), named, done_by))
    return Planned(tuple(steps), tuple(repairs))


def _given(place: int, name: str, given: Mapping[str, int], repairs: list[str]) -> int | None:
    """Find the result that a step is done by; one that points nowhere is taken as any other."""
    if name and name not in given:
        repairs.append(f"steps.{place}: there is no result {name[:64]!r}")
    return given.get(name)


def _tools(
    place: int, named: list[JsonValue], tools: Container[str], repairs: list[str]
) -> Iterator[str]:
    for name in named:
        if isinstance(name, str) and name in tools:
            yield name
        else:
            repairs.append(f"steps.{place}: there is no tool {str(name)[:64]!r}")
