"""A figure: one number, what was measured to get it, and what it should be.

A program that measures gives figures and judges nothing; whether a target is reached is read off
here. Absolute times belong to the machine they were taken on, ratios hold elsewhere too.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should reach."""

    sense: Literal["<=", ">="]
    bound: float

    def met_by(self, value: float) -> bool:
        """Tell whether a value reaches it."""
        return value <= self.bound if self.sense == "<=" else value >= self.bound


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure; `runs` holds its value of each run, and the median stands for them."""

    name: str
    """Two to six words."""
    measured: str
    """What was measured, in one sentence."""
    unit: str
    """`ms`, `bytes`, `events/s`, or `x` for a ratio."""
    runs: tuple[float, ...]
    target: Target | None = None
    """None where the figure is only reported."""

    @property
    def value(self) -> float:
        """The median of its runs."""
        return statistics.median(self.runs)

    @property
    def reached(self) -> bool | None:
        """Whether it reaches its target, if it has one."""
        return self.target.met_by(self.value) if self.target else None

    def spelt(self) -> dict[str, JsonValue]:
        """Give it as plain values."""
        target = f"{self.target.sense} {self.target.bound:g}" if self.target else None
        return {
            "name": self.name,
            "measured": self.measured,
            "unit": self.unit,
            "value": self.value,
            "runs": list(self.runs),
            "target": target,
            "reached": self.reached,
        }


@dataclass(frozen=True, slots=True)
class Terms:
    """What a program that measures is given."""

    folder: Path
    """Empty, and removed afterwards."""
    long: bool
    """As far as it goes, instead of as far as ten minutes for everything allow."""
    runs: int
    """How often each figure is taken."""


def at_most(bound: float) -> Target:
    """Give the target of a figure that should be small."""
    return Target("<=", bound)


def at_least(bound: float) -> Target:
    """Give the target of a figure that should be large."""
    return Target(">=", bound)
