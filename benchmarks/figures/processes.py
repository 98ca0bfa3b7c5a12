"""The memory of each process, and the time from its start until it is ready."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure
from tests.support.processes.process_host import find_free_port, run_process_host
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

COMMAND_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "projector": ("run", "projector"),
    "gateway": ("run", "gateway"),
    "worker": ("run", "worker"),
    "up": ("up",),
}
SETTLE_SECONDS: Final = 6.0
"""Seconds until everything is loaded that loads in the background, such as litellm."""
READY_POLL_INTERVAL: Final = 0.01


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """One start."""

    seconds: float
    megabytes: float


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Start each process alone beside a server, once in each run."""
    runs: dict[str, list[ProcessStart]] = {name: [] for name in COMMAND_WORDS}
    for run in range(terms.runs):
        folder = terms.folder / str(run)
        async with await NatsServer.start(NatsConfig(folder / "nats", monitor=True)) as server:
            for name in COMMAND_WORDS:
                runs[name].append(await _measure_start(folder, server, name))
    return [figure for name, taken in runs.items() for figure in _build_figures(name, taken)]


def _build_figures(name: str, taken: Sequence[ProcessStart]) -> tuple[Figure, Figure]:
    words = f"turnlog {' '.join(COMMAND_WORDS[name])}"
    return (
        Figure(
            f"start of {name}",
            f"from the start of `{words}` until its /readyz says 200",
            "s",
            tuple(each.seconds for each in taken),
        ),
        Figure(
            f"memory of {name}",
            f"resident memory of `{words}` {SETTLE_SECONDS:g} s later, idle, without nats-server",
            "MB",
            tuple(each.megabytes for each in taken),
        ),
    )


async def _measure_start(folder: Path, server: NatsServer, name: str) -> ProcessStart:
    address = f"127.0.0.1:{find_free_port()}"
    variables = {
        "TURNLOG_NATS_URL": server.url,
        "TURNLOG_NATS_MONITOR": server.monitor_url or "",
        "TURNLOG_DATABASE_URL": f"sqlite+aiosqlite:///{folder / 'rows.db'}",
        "TURNLOG_DATA_DIR": str(folder / "data"),
        "TURNLOG_HTTP": address,
        "TURNLOG_HEALTH": address,
    }
    async with run_process_host(folder, variables) as on:
        began = time.perf_counter()
        process = await on.start_process(*COMMAND_WORDS[name], output_file=folder / f"{name}.log")
        while not await _is_ready(address):
            assert process.returncode is None, f"{name} ended"
            await asyncio.sleep(READY_POLL_INTERVAL)
        seconds = time.perf_counter() - began
        await asyncio.sleep(SETTLE_SECONDS)
        return ProcessStart(seconds, _read_resident_megabytes(process.pid))


async def _is_ready(address: str) -> bool:
    host, _, port = address.partition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.write(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.startswith(b"HTTP/1.1 200")


def _read_resident_megabytes(pid: int) -> float:
    """Read the resident memory in megabytes, as Linux reports it."""
    (line,) = (
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in line
    )
    return int(line.split()[1]) / 1024
