"""The simulation finds each planted fault of the protocol within a few seeds."""

from __future__ import annotations

import pytest

from tests.simulation.checks.simulation_checks import find_faults
from tests.simulation.fault_profiles import (
    LOST_MESSAGES,
    LOST_REPLIES,
    NO_FAULTS,
    STOPPED_WORKERS,
    FaultProfile,
)
from tests.simulation.planted_faults import PLANTED, PLANTED_IN_MEDIA, PLANTED_IN_TEAMS
from tests.simulation.processes.simulated_roles import ProcessOptions
from tests.simulation.simulation import Simulation, has_media, has_teams

pytestmark = pytest.mark.slow("whole seeds of the simulation run")

SEED_COUNT = 150
"""Seeds within which each fault is found."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("planted", PLANTED)
def test_planted_protocol_fault_is_found(planted: str) -> None:
    assert any(_is_fault_found(planted, seed) for seed in range(SEED_COUNT))


def _is_fault_found(planted: str, seed: int) -> bool:
    making, sky = PLANTED[planted]
    return bool(_run_with_fault(seed, making, sky))


def _run_with_fault(seed: int, making: ProcessOptions, sky: FaultProfile) -> list[str]:
    simulation = Simulation(seed=seed, options=making, profile=sky)
    simulation.run()
    return find_faults(simulation)


@pytest.mark.parametrize("planted", PLANTED_IN_TEAMS)
def test_planted_fault_of_child_sessions_is_found(planted: str) -> None:
    seeds = filter(has_teams, range(SEED_COUNT))
    assert any(_run_with_fault(seed, PLANTED_IN_TEAMS[planted], NO_FAULTS) for seed in seeds)


@pytest.mark.parametrize("planted", PLANTED_IN_MEDIA)
def test_planted_fault_of_media_is_found(planted: str) -> None:
    making, sky = PLANTED_IN_MEDIA[planted]
    seeds = filter(has_media, range(SEED_COUNT))
    assert any(_run_with_fault(seed, making, sky) for seed in seeds)


def test_no_fault_of_child_sessions_is_found_without_a_planted_one() -> None:
    for seed in filter(has_teams, range(40)):
        assert _run_with_fault(seed, ProcessOptions(), NO_FAULTS) == []


@pytest.mark.parametrize("sky", [NO_FAULTS, LOST_REPLIES, LOST_MESSAGES, STOPPED_WORKERS])
def test_no_fault_is_found_under_the_same_fault_profile_without_a_planted_one(
    sky: FaultProfile,
) -> None:
    for seed in range(10):
        simulation = Simulation(seed=seed, profile=sky)
        simulation.run()
        assert find_faults(simulation) == []
