"""The memory of each process, and the time from its start until it is ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.figure import Figure, Terms
from tests.parts.processes import free_port, machine
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "projector": ("run", "projector"),
    "gateway": ("run", "gateway"),
    "worker": ("run", "worker"),
    "up": ("up",),
}
SETTLED: Final = 6.0
"""Seconds until everything is loaded that loads in the background, such as litellm."""
LOOK_EVERY: Final = 0.01


@dataclass(frozen=True, slots=True)
class Started:
    """One start."""

    seconds: float
    megabytes: float


async def measure(terms: Terms) -> Sequence[Figure]:
    """Start each process alone beside a server, once in each run."""
    runs: dict[str, list[Started]] = {name: [] for name in WORDS}
    for run in range(terms.runs):
        folder = terms.folder / str(run)
        async with await NatsServer.start(NatsConfig(folder / "nats", monitor=True)) as server:
            for name in WORDS:
                runs[name].append(await _started(folder, server, name))
    return [figure for name, taken in runs.items() for figure in _figures(name, taken)]


def _figures(name: str, taken: Sequence[Started]) -> tuple[Figure, Figure]:
    words = f"turnlog {' '.join(WORDS[name])}"
    return (
        Figure(
            f"start of {name}",
            f"from the start of `{words}` until its /readyz says 200",
            "s",
            tuple(each.seconds for each in taken),
        ),
        Figure(
            f"memory of {name}",
            f"resident memory of `{words}` {SETTLED:g} s later, idle, without nats-server",
            "MB",
            tuple(each.megabytes for each in taken),
        ),
    )


async def _started(folder: Path, server: NatsServer, name: str) -> Started:
    address = f"127.0.0.1:{free_port()}"
    variables = {
        "TURNLOG_NATS_URL": server.url,
        "TURNLOG_NATS_MONITOR": server.monitor_url or "",
        "TURNLOG_DATABASE_URL": f"sqlite+aiosqlite:///{folder / 'rows.db'}",
        "TURNLOG_DATA_DIR": str(folder / "data"),
        "TURNLOG_HTTP": address,
        "TURNLOG_HEALTH": address,
    }
    async with machine(folder, variables) as on:
        began = time.perf_counter()
        process = await on.start(*WORDS[name], said=folder / f"{name}.log")
        while not await _ready(address):
            assert process.returncode is None, f"{name} ended"
            await asyncio.sleep(LOOK_EVERY)
        seconds = time.perf_counter() - began
        await asyncio.sleep(SETTLED)
        return Started(seconds, _resident(process.pid))


async def _ready(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.write(b"GET /readyz HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.startswith(b"HTTP/1.1 200")


def _resident(pid: int) -> float:
    """Read the resident memory in megabytes, as Linux reports it."""
    (line,) = (
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in line
    )
    return int(line.split()[1]) / 1024
