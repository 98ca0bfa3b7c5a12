"""Run seeds from a terminal: `python -m tests.simulation --seeds 10000`."""

from __future__ import annotations

import argparse
import sys

from tests.simulation.checks.simulation_checks import find_faults
from tests.simulation.seed_runner import run_seeds
from tests.simulation.simulation import Simulation
from turnlog.events.registry import format_event_name


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate the protocol, seed by seed.")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, help="processes; as many as processors without it")
    parser.add_argument("--events", action="store_true", help="show one seed's log and history")
    options = parser.parse_args()
    if options.events:
        return show_seed(options.first)
    failed = events = 0
    for number, each in enumerate(
        run_seeds(range(options.first, options.first + options.seeds), options.jobs), 1
    ):
        events += each.events
        failed += bool(each.faults)
        if each.faults:
            print(each, flush=True)
        if number % 500 == 0:
            print(f"{number} seeds, {events} events, {failed} failed", flush=True)
    print(f"{options.seeds} seeds, {events} events, {failed} failed")
    return 1 if failed else 0


def show_seed(seed: int) -> int:
    """Print what happened in a seed, and its faults."""
    simulation = Simulation(seed=seed)
    simulation.run()
    found = find_faults(simulation)
    print(simulation.fault_profile)
    for session, events in simulation.log.items():
        for each in events:
            stored = simulation.server.sessions.messages[each.stream_sequence - 1]
            turn, attempt = (getattr(each.event, name, "") for name in ("turn", "attempt"))
            name, by = format_event_name(each.envelope.type), each.envelope.source
            print(
                f"{stored.at:%H:%M:%S.%f} {session} {each.sequence:3} {name} {turn} {attempt} {by}"
            )
    for tried in simulation.history.tries:
        print(tried)
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
