"""Reading a plan: what a model wrote becomes steps, and what had to be mended is said.

Models wrap JSON in prose and in blocks of code, leave control characters in it, write a step as a
bare sentence and a number where a text belongs. All of that can be read, and each repair is told.
What still is no plan is none: a model is asked again rather than misread.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

_BLOCK: Final = re.compile(r"```[a-zA-Z]*\n(.*?)```", re.DOTALL)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")


class Unplanned(ValueError):
    """A text that is no plan, and why."""


@dataclass(frozen=True, slots=True)
class Intended:
    """One step as a model means it."""

    goal: str
    tools: tuple[str, ...] = ()
    """Those it named, of those there are."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what had to be mended in it."""

    steps: tuple[Intended, ...]
    repairs: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reading:
    tools: Container[str]
    repairs: list[str] = field(default_factory=list[str])

    def steps(self, said: JsonValue) -> Iterator[Intended]:
        if isinstance(said, dict):
            if "steps" not in said:
                raise Unplanned("it names no `steps`")
            said = said["steps"]
        else:
            self.repairs.append("steps without a plan around them")
        if not isinstance(said, list):
            raise Unplanned("its steps are no list")
        for place, step in enumerate(said, 1):
            yield self._step(place, step)

    def _step(self, place: int, said: JsonValue) -> Intended:
        if isinstance(said, dict):
            goal = self._goal(place, said.get("goal"))
            return Intended(goal, tuple(self._tools(place, said.get("tools"))))
        goal = self._goal(place, said)
        self.repairs.append(f"step {place}: a goal alone")
        return Intended(goal)

    def _goal(self, place: int, said: JsonValue) -> str:
        if isinstance(said, int | float):
            self.repairs.append(f"step {place}: a number for a text")
            said = str(said)
        if not isinstance(said, str) or not said.strip():
            raise Unplanned(f"step {place} has no goal")
        return said.strip()

    def _tools(self, place: int, said: JsonValue) -> Iterator[str]:
        if isinstance(said, str):
            self.repairs.append(f"step {place}: one tool for a list")
            said = [said]
        for named in said if isinstance(said, list) else ():
            if isinstance(named, str) and named in self.tools:
                yield named
            else:
                self.repairs.append(f"step {place}: there is no tool {str(named)[:64]!r}")


def plan_in(text: str, tools: Container[str], most: int) -> Planned:
    """Read a plan of at most so many steps; raises `Unplanned`."""
    reading = _Reading(tools)
    steps = tuple(reading.steps(_json_in(text, reading.repairs)))
    if len(steps) > most:
        raise Unplanned(f"it has {len(steps)} steps, {most} are allowed")
    return Planned(steps, tuple(reading.repairs))


def _json_in(text: str, repairs: list[str]) -> JsonValue:
    plain = _CONTROL.sub("", text)
    if plain != text:
        repairs.append("control characters taken out")
    for said, how in _candidates(plain):
        try:
            found: JsonValue = json.loads(said, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict | list):
            repairs.extend((how,) if how else ())
            return found
    raise Unplanned("there is no JSON in it")


def _candidates(text: str) -> Iterator[tuple[str, str]]:
    """Give what may be meant, the whole text first, and how it was found."""
    yield text, ""
    for block in _BLOCK.findall(text):
        yield block, "taken out of a block of code"
    first, last = text.find("{"), text.rfind("}")
    if 0 <= first < last:
        yield text[first : last + 1], "taken out of the text around it"
