"""How often each fault happens in one simulation, drawn from its seed.

Some seeds have few faults and some have many, because a fault that always comes with ten others is
never seen alone. After `FAULTS_END` no more faults happen, so that everything must finish.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final

FAULTS_END: Final = 90.0
"""Seconds after which no more faults happen."""

TIME_LIMIT: Final = 1_500.0
"""Seconds by which everything must have finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultProfile:
    """Probabilities between 0 and 1, and numbers of faults that happen once each."""

    latency: float
    """Mean seconds that a message travels."""
    lost: float
    """Probability that a request or its answer is lost."""
    unheard: float
    """Probability that a plain NATS message is lost: a token, a republished event, an
    acknowledgement.
    """
    lag: float
    """Probability that a replica behind its leader answers."""
    failing: float
    """Probability that a model fails at a request."""
    pace: float
    """Factor by which models are slow."""
    kills: int
    """Processes killed."""
    stops: int
    """Processes stopped for a while."""
    cuts: int
    """Connections that are down for a while."""
    spite: float
    """Probability that a process is killed at the moment in which its message is stored."""
    restarts: int
    """Restarts of the server, which lose the token stream."""


NO_FAULTS: Final = FaultProfile(
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

LOST_REPLIES: Final = replace(
    NO_FAULTS, lost=0.02, unheard=0.2, lag=0.3, stops=3, cuts=2, spite=0.1
)
"""Replies are lost between their last token and their record."""

LOST_MESSAGES: Final = replace(NO_FAULTS, lost=0.2)
"""Answers are lost, so that the outcome of a request is unknown."""

STOPPED_WORKERS: Final = replace(NO_FAULTS, pace=4.0, stops=20)
"""Workers are stopped, and continue when another worker has their turn."""


def draw_fault_profile(chance: random.Random) -> FaultProfile:
    """Draw the fault profile of a simulation."""

    def sometimes(most: float) -> float:
        return chance.choice((0.0, 0.0, 1.0)) * chance.random() * most

    def times(most: int) -> int:
        return chance.choice((0, 1)) * chance.randint(0, most)

    return FaultProfile(
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
