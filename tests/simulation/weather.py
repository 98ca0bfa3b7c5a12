"""The weather of one simulation: how often each thing goes wrong, drawn from its seed.

Some seeds are calm and some are storms, since a fault that always comes with ten others is never
seen alone. From `CLEARS` on nothing goes wrong any more, so that everything must come to its end.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
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
    kills: int
    """Processes killed."""
    stops: int
    """Processes stopped for a while."""
    cuts: int
    """Connections that are down for a while."""
    restarts: int
    """Restarts of the server, by which it forgets TOKENS."""


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
        lag=chance.choice((0.0, 0.3)),
        failing=chance.choice((0.0, 0.2, 0.5)),
        kills=times(4),
        stops=times(4),
        cuts=times(4),
        restarts=times(2),
    )
