"""What every word of a worker carries: under which claim it acts, and what that took."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.call import Cost, Timings, Usage


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which claim a worker acts under; once it is superseded, only its cost is recorded."""

    turn: int
    call: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Spent:
    """What an attempt took, wanted or not."""

    usage: Usage
    cost: Cost
    timings: Timings | None = None
