"""Soak test: a service under load and random attacks for some minutes, then the checker.

    python -m tests.faults.soak --minutes 60 --seed 7

The seed is printed. It decides what happens in which order, but not the timing. The memory of each
process is printed every minute, so that a leak shows.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.attacked_service import AttackedService, run_attacked_service
from tests.faults.attacks import ATTACKS
from tests.faults.checks.checker import check_evidence
from tests.faults.checks.evidence_collection import collect_evidence
from tests.faults.clients.client_history import ClientHistory
from tests.faults.clients.client_load import run_load
from tests.faults.crash_points import CRASH_POINTS

CLIENT_COUNT = 6
REPORT_INTERVAL = 60.0


async def run_soak(minutes: float, seed: int, folder: Path) -> int:
    """Attack for so many minutes and return the exit code."""
    chance, history = random.Random(seed), ClientHistory()  # noqa: S311 - chance, not secrecy
    ends = time.monotonic() + 60 * minutes
    async with run_attacked_service(folder) as at:
        async with run_load(at, history, CLIENT_COUNT) as load:
            reported_at = 0.0
            while time.monotonic() < ends:
                description = await run_random_attack(at, chance)
                await at.start_missing()
                await load.wait_for_turns()
                print(f"{_format_time_left(ends)}  {description}", flush=True)
                if time.monotonic() - reported_at > REPORT_INTERVAL:
                    reported_at = time.monotonic()
                    print(f"{_format_time_left(ends)}  {describe_memory(at)}", flush=True)
        findings = check_evidence(await collect_evidence(at, history))
        print(describe_memory(at))
    for finding in findings:
        print(f"FOUND {finding.fault} in {finding.session}: {finding.detail}")
    print(f"{len(history.tries)} tries of commands, {len(history.heard)} replies heard, ", end="")
    print(f"{len(findings)} findings, seed {seed}")
    return 1 if findings else 0


async def run_random_attack(at: AttackedService, chance: random.Random) -> str:
    """Make one random attack and return its description."""
    if chance.random() < 0.5:
        crash = chance.choice(CRASH_POINTS)
        for point in crash.points:
            at.set_kill_point(crash.role, point)
            await at.wait_for_death(crash.role)
        return f"{crash.role} killed {' and '.join(crash.points)}"
    name = chance.choice(sorted(ATTACKS))
    await ATTACKS[name](at)
    return name


def describe_memory(at: AttackedService) -> str:
    """Return the memory of each process as text."""
    lines = [f"{each.role} {_read_megabytes(each.process.pid)} MB" for each in at.running]
    return ", ".join([*lines, f"nats {_read_megabytes(at.server.pid)} MB"])


def _read_megabytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


def _format_time_left(ends: float) -> str:
    return f"{max(0.0, ends - time.monotonic()) / 60:6.1f} min left"


def main() -> None:
    parser = argparse.ArgumentParser(description="Attack a service under load for a while.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed  # noqa: S311
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="turnlog-soak-") as folder:
        sys.exit(asyncio.run(run_soak(options.minutes, seed, Path(folder))))


if __name__ == "__main__":
    main()
