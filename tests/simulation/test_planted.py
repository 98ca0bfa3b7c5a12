"""The simulation finds each planted fault of the protocol within a few seeds."""

from __future__ import annotations

import pytest

from tests.simulation.planted import PLANTED
from tests.simulation.simulation import Simulation
from tests.simulation.verdict import faults
from tests.simulation.weather import CALM, DEADLY, DOUBTFUL, SLEEPY, Weather

ENOUGH = 150
"""Seeds within which each fault is found."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_is_found(planted: str) -> None:
    assert any(_found(planted, seed) for seed in range(ENOUGH))


def _found(planted: str, seed: int) -> bool:
    making, sky = PLANTED[planted]
    simulation = Simulation(seed, making, sky)
    simulation.run()
    return bool(faults(simulation))


@pytest.mark.parametrize("sky", [CALM, DEADLY, DOUBTFUL, SLEEPY])
def test_nothing_is_found_in_the_same_weather_where_nothing_is_planted(sky: Weather) -> None:
    for seed in range(20):
        simulation = Simulation(seed, under=sky)
        simulation.run()
        assert faults(simulation) == []
