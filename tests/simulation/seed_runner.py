"""Runs many seeds, in as many processes as there are processors, and returns what each found.

A failing seed is printed as the command that runs exactly this seed again.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from os import cpu_count

from tests.simulation.checks.media_checks import list_named_parts
from tests.simulation.checks.simulation_checks import find_faults
from tests.simulation.simulation import Simulation


@dataclass(frozen=True, slots=True)
class SeedResult:
    """The outcome of a seed."""

    seed: int
    events: int
    faults: tuple[str, ...]
    kinds: frozenset[str] = frozenset()
    """The types of its events, by class name."""
    media: Counter[str] = field(default_factory=Counter[str])
    """How many pictures, recordings and files events of each type name, by class name."""

    def __str__(self) -> str:
        again = f"{sys.executable} -m tests.simulation --from {self.seed} --seeds 1 --events"
        return "\n  ".join((f"seed {self.seed} fails: {again}", *self.faults))


def run_seed(seed: int) -> SeedResult:
    """Run a seed; an exception in the simulation itself is a fault too."""
    simulation = Simulation(seed=seed)
    try:
        simulation.run()
        found = find_faults(simulation)
    except Exception:  # noqa: BLE001 - the other seeds go on
        found = [traceback.format_exc()]
    kinds = {type(each.event).__name__ for log in simulation.log.values() for each in log}
    media = Counter[str]()
    for log in simulation.log.values():
        for each in log:
            media[type(each.event).__name__] += len(list_named_parts([each]))
    events = len(simulation.server.sessions.messages)
    return SeedResult(seed, events, tuple(found), frozenset(kinds), media)


def run_seeds(seeds: Sequence[int], jobs: int | None = None) -> Iterator[SeedResult]:
    """Run seeds in parallel and yield their results in order."""
    spawning = get_context("spawn")
    with ProcessPoolExecutor(jobs or cpu_count(), spawning) as pool:
        yield from pool.map(run_seed, seeds, chunksize=10)
