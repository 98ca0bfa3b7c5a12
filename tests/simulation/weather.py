"""The weather of one simulation: how often each thing goes wrong, drawn from its seed.

Some seeds are calm and some are storms, since a fault that always comes with ten others is never
seen alone. From `CLEARS` on nothing goes wrong any more, so that everything must come to its end.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final

CLEARS: Final = 90.0
"""Seconds after which nothing goes wrong any more."""
ENDS: Final = 1_500.0
"""Seconds by which everything must have come to its end."""


@dataclass(frozen=True, slots=True)
class Weather:
    """Chances between 0 and 1, and numbers of things that happen once each."""

    latency: float
    """Seconds a message travels on average."""
    lost: float
    """That a request or its answer is lost on the way."""
    unheard: float
    """That a message of plain NATS is lost: a token, a republished event, an acknowledgement."""
    lag: float
    """That a replica answers which is behind its leader."""
    failing: float
    """That a model fails at a request."""
    pace: float
    """How slow models speak."""
    kills: int
    """Processes killed."""
    stops: int
    """Processes stopped for a while."""
    cuts: int
    """Connections that are down for a while."""
    spite: float
    """That a process is killed in the very moment in which something it sent is stored."""
    restarts: int
    """Restarts of the server, by which it forgets TOKENS."""


CALM: Final = Weather(
    latency=0.01,
    lost=0,
    unheard=0,
    lag=0,
    failing=0,
    pace=1,
    kills=0,
    stops=0,
    cuts=0,
    spite=0,
    restarts=0,
)
DEADLY: Final = replace(CALM, lost=0.02, unheard=0.2, lag=0.3, stops=3, cuts=2, spite=0.1)
"""Replies are lost between their last word and their record."""
DOUBTFUL: Final = replace(CALM, lost=0.2)
"""Nobody knows what came of what was sent."""
SLEEPY: Final = replace(CALM, pace=4.0, stops=20)
"""Workers are stopped, and go on when somebody else has their turn."""


def weather(chance: random.Random) -> Weather:
    """Draw the weather of a simulation."""

    def sometimes(most: float) -> float:
        return chance.choice((0.0, 0.0, 1.0)) * chance.random() * most

    def times(most: int) -> int:
        return chance.choice((0, 1)) * chance.randint(0, most)

    return Weather(
        latency=chance.choice((0.001, 0.01, 0.05)),
        lost=sometimes(0.05),
        unheard=sometimes(0.2),
        lag=chance.choice((0.0, 0.3, 0.6)),
        failing=chance.choice((0.0, 0.2, 0.5)),
        pace=chance.choice((1.0, 1.0, 4.0)),
        kills=times(5),
        stops=times(5),
        cuts=times(5),
        spite=sometimes(0.05),
        restarts=times(3),
    )
