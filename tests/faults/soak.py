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

from tests.faults.attacks import ATTACKS
from tests.faults.checker import check
from tests.faults.evidence import collected
from tests.faults.history import History
from tests.faults.load import load
from tests.faults.points import POINTS
from tests.faults.site import Site, site

CLIENTS = 6
REPORT_EVERY = 60.0


async def soak(minutes: float, seed: int, folder: Path) -> int:
    """Attack for so many minutes and return the exit code."""
    chance, history = random.Random(seed), History()  # noqa: S311 - chance, not secrecy
    ends = time.monotonic() + 60 * minutes
    async with site(folder) as at:
        async with load(at, history, CLIENTS) as talking:
            told = 0.0
            while time.monotonic() < ends:
                said = await attacked(at, chance)
                await at.start_missing()
                await talking.goes_on()
                print(f"{_left(ends)}  {said}", flush=True)
                if time.monotonic() - told > REPORT_EVERY:
                    told = time.monotonic()
                    print(f"{_left(ends)}  {memory(at)}", flush=True)
        findings = check(await collected(at, history))
        print(memory(at))
    for finding in findings:
        print(f"FOUND {finding.fault} in {finding.session}: {finding.detail}")
    print(f"{len(history.tries)} tries of commands, {len(history.heard)} replies heard, ", end="")
    print(f"{len(findings)} findings, seed {seed}")
    return 1 if findings else 0


async def attacked(at: Site, chance: random.Random) -> str:
    """Make one random attack and return its description."""
    if chance.random() < 0.5:
        crash = chance.choice(POINTS)
        for point in crash.points:
            at.die_at(crash.role, point)
            await at.died(crash.role)
        return f"{crash.role} killed {' and '.join(crash.points)}"
    name = chance.choice(sorted(ATTACKS))
    await ATTACKS[name](at)
    return name


def memory(at: Site) -> str:
    """Return the memory of each process as text."""
    held = [f"{each.role} {_megabytes(each.process.pid)} MB" for each in at.running]
    return ", ".join([*held, f"nats {_megabytes(at.server.pid)} MB"])


def _megabytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) // 1024


def _left(ends: float) -> str:
    return f"{max(0.0, ends - time.monotonic()) / 60:6.1f} min left"


def main() -> None:
    parser = argparse.ArgumentParser(description="Attack a service under load for a while.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    asked = parser.parse_args()
    seed = random.randrange(10**6) if asked.seed is None else asked.seed  # noqa: S311
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="turnlog-soak-") as folder:
        sys.exit(asyncio.run(soak(asked.minutes, seed, Path(folder))))


if __name__ == "__main__":
    main()
