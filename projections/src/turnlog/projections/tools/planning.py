"""Reading a plan: what a model wrote becomes steps, and what had to be mended is said.

Its form is a schema like that of any other answer. What no schema can know is looked at here: which
tools there are, and how many steps are allowed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
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
                },
            },
        }
    },
}
"""The form of a plan: steps, each with a goal and the tools it may take."""


@dataclass(frozen=True, slots=True)
class Intended:
    """One step as a model means it."""

    goal: str
    tools: tuple[str, ...] = ()
    """Those it named, of those there are."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what had to be left out of it."""

    steps: tuple[Intended, ...]
    repairs: tuple[str, ...] = ()


def plan_in(fitted: Fitted, tools: Container[str], most: int) -> Planned:
    """Read a plan of at most so many steps; raises `Unfit`."""
    said = cast("list[dict[str, Any]]", cast("dict[str, Any]", fitted.value)["steps"])
    if len(said) > most:
        raise Unfit(f"it has {len(said)} steps, {most} are allowed")
    repairs: list[str] = []
    steps = tuple(_step(place, step, tools, repairs) for place, step in enumerate(said))
    return Planned(steps, tuple(repairs))


def _step(place: int, step: dict[str, Any], tools: Container[str], repairs: list[str]) -> Intended:
    return Intended(
        mended(step["goal"]).strip(),
        tuple(_tools(place, step.get("tools", ()), tools, repairs)),
    )


def _tools(
    place: int, named: list[JsonValue], tools: Container[str], repairs: list[str]
) -> Iterator[str]:
    for name in named:
        if isinstance(name, str) and name in tools:
            yield name
        else:
            repairs.append(f"steps.{place}: there is no tool {str(name)[:64]!r}")
