"""A figure: one number, how it was measured, and its target.

Programs that measure return figures and judge nothing; whether a target is reached is computed
here. Absolute times belong to the machine they were measured on; ratios hold elsewhere too.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class FigureTarget:
    """The bound a figure should reach."""

    sense: Literal["<=", ">="]
    bound: float

    def is_met_by(self, value: float) -> bool:
        """Tell whether a value reaches it."""
        return value <= self.bound if self.sense == "<=" else value >= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure with its value in each run; the median counts."""

    name: str
    """Two to six words."""
    measured: str
    """What was measured, in one sentence."""
    unit: str
    """`ms`, `bytes`, `events/s`, or `x` for a ratio."""
    runs: tuple[float, ...]
    target: FigureTarget | None = None
    """None where the figure is only reported."""

    @property
    def value(self) -> float:
        """The median of its runs."""
        return statistics.median(self.runs)

    @property
    def reached(self) -> bool | None:
        """Whether it reaches its target, or None without one."""
        return self.target.is_met_by(self.value) if self.target else None

    def to_values(self) -> dict[str, JsonValue]:
        """Return it as plain values."""
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
class BenchmarkTerms:
    """The parameters of a measurement."""

    folder: Path
    """Empty, and removed afterwards."""
    long: bool
    """Whether to measure at full length, and not at what fits into ten minutes for all families."""
    runs: int
    """How often each figure is measured."""


def require_at_most(bound: float) -> FigureTarget:
    """Return the target of a figure that should be small."""
    return FigureTarget("<=", bound)


def require_at_least(bound: float) -> FigureTarget:
    """Return the target of a figure that should be large."""
    return FigureTarget(">=", bound)
