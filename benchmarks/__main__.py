"""All figures in one run: `python -m benchmarks`, or some families by their names.

It uses a real nats-server with fsync on every ack, real processes and real HTTP. It prints each
family as it is measured and one table at the end, and writes everything as JSON. A figure that
misses its target fails no build. Where the machine was busy, the table says so.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figure_families import list_families, run_family
from benchmarks.figure_table import show_table
from benchmarks.figure_types import BenchmarkTerms, Figure
from benchmarks.machine_facts import MachineFacts, read_machine
from tests.support.processes.fork_server import announce_fork_server, forget_fork_server

REPORT_FILE = Path("build/bench.json")


def main() -> int:
    """Measure what is requested; return 1 when a program that measures failed."""
    options = _parse_arguments()
    before = read_machine()
    found: list[Figure] = []
    broken = 0
    with run_fork_server(), tempfile.TemporaryDirectory(prefix="turnlog-bench-") as folder:
        terms = BenchmarkTerms(Path(folder), options.long, options.runs)
        for name in options.families or list_families():
            print(f"{name} ...", flush=True)
            began = time.monotonic()
            outcome = run_family(name, terms)
            if isinstance(outcome, str):
                print(outcome)
                broken += 1
            else:
                found += outcome
            print(f"{name} took {time.monotonic() - began:.0f} s", flush=True)
    _write_report(options.json, before, found)
    show_table(before, found)
    return 1 if broken else 0


@contextmanager
def run_fork_server() -> Generator[None]:
    """Let the families start `turnlog` as the tests do."""
    folder = announce_fork_server()
    try:
        yield
    finally:
        if folder:
            forget_fork_server(folder)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(list_families()))
    parser.add_argument("--long", action="store_true", help="sessions of 10,000 real turns")
    parser.add_argument("--runs", type=int, default=3, help="how often each figure is taken")
    parser.add_argument("--json", type=Path, default=REPORT_FILE, help="where the figures are kept")
    options = parser.parse_args()
    if unknown := set(options.families) - set(list_families()):
        parser.error(
            f"there is no {', '.join(sorted(unknown))}; there are {', '.join(list_families())}"
        )
    return options


def _write_report(file: Path, before: MachineFacts, found: Sequence[Figure]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    figures = [figure.to_values() for figure in found]
    file.write_text(json.dumps({"machine": before.to_values(), "figures": figures}, indent=2))


if __name__ == "__main__":
    raise SystemExit(main())
