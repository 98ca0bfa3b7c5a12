"""The memory of each process, the time from its start until it is ready, and what a command costs.

`up` starts twice in one data directory: it is empty at first, and then one that was used before.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.figure_types import BenchmarkTerms, Figure
from tests.support.processes.process_host import PROGRAM_FOLDER, find_free_port
from turnlog.services.platform.nats_server import NatsConfig, NatsServer

COMMAND_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "projector": ("run", "projector"),
    "gateway": ("run", "gateway"),
    "worker": ("run", "worker"),
    "up": ("up", "--nats", "127.0.0.1:0"),
    "up again": ("up", "--nats", "127.0.0.1:0"),
}
SETTLE_SECONDS: Final = 6.0
"""Seconds until everything is loaded that loads in the background, such as litellm."""
READY_POLL_INTERVAL: Final = 0.01

READERS: Final = ("--help", "sessions", "show s", "why s 1", "tail s")
"""Commands whose start is measured; no service answers them."""


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """One start."""

    seconds: float
    processor_seconds: float
    resident: float
    """Megabytes, with the files that processes share."""
    proportional: float
    """Megabytes, with a part of what is shared."""


async def measure_figures(terms: BenchmarkTerms) -> Sequence[Figure]:
    """Start each process beside a server, and each command, once in each run."""
    runs: dict[str, list[ProcessStart]] = {name: [] for name in COMMAND_WORDS}
    commands: dict[str, list[float]] = {command: [] for command in READERS}
    for run in range(terms.runs):
        folder = terms.folder / str(run)
        async with await NatsServer.start(
            NatsConfig(data_dir=folder / "nats", monitor=True)
        ) as server:
            for name in COMMAND_WORDS:
                runs[name].append(await _measure_start(folder, server, name))
        for command, taken in commands.items():
            taken.append(_measure_command(folder, command))
    figures = [figure for name, taken in runs.items() for figure in _build_figures(name, taken)]
    return [
        *figures,
        *(
            Figure(
                name=f"turnlog {command}",
                measured="processor time of the command",
                unit="s",
                runs=tuple(taken),
            )
            for command, taken in commands.items()
        ),
    ]


def _build_figures(name: str, taken: Sequence[ProcessStart]) -> tuple[Figure, ...]:
    words = f"turnlog {' '.join(COMMAND_WORDS[name])}"
    return (
        Figure(
            name=f"start of {name}",
            measured=f"from the start of `{words}` until its /readyz says 200",
            unit="s",
            runs=tuple(each.seconds for each in taken),
        ),
        Figure(
            name=f"start of {name}, processor",
            measured=f"processor time of `{words}` until then, without nats-server",
            unit="s",
            runs=tuple(each.processor_seconds for each in taken),
        ),
        Figure(
            name=f"memory of {name}",
            measured=(
                f"resident memory of `{words}` {SETTLE_SECONDS:g} s later, idle, without"
                " nats-server"
            ),
            unit="MB",
            runs=tuple(each.resident for each in taken),
        ),
        Figure(
            name=f"memory of {name}, shared in part",
            measured="the same by proportional set size",
            unit="MB",
            runs=tuple(each.proportional for each in taken),
        ),
    )


async def _measure_start(folder: Path, server: NatsServer, name: str) -> ProcessStart:
    if name != "worker":
        return await _measure_process(folder, server, name)
    # A worker asks a gateway or a projector how far the rows are, and waits for an answer.
    async with _run_process(folder, server, "projector") as projector:
        await projector.wait_until_ready()
        return await _measure_process(folder, server, name)


async def _measure_process(folder: Path, server: NatsServer, name: str) -> ProcessStart:
    began = time.perf_counter()
    async with _run_process(folder, server, name) as started:
        await started.wait_until_ready()
        seconds, used = time.perf_counter() - began, _read_processor_seconds(started.process.pid)
        await asyncio.sleep(SETTLE_SECONDS)
        memory = _read_megabytes(started.process.pid)
    return ProcessStart(seconds, used, memory["Rss"], memory["Pss"])


@dataclass(frozen=True, slots=True)
class _StartedProcess:
    process: asyncio.subprocess.Process
    address: str

    async def wait_until_ready(self) -> None:
        while not await _is_ready(self.address):
            assert self.process.returncode is None, "the process ended"
            await asyncio.sleep(READY_POLL_INTERVAL)


@asynccontextmanager
async def _run_process(
    folder: Path, server: NatsServer, name: str
) -> AsyncGenerator[_StartedProcess]:
    address = f"127.0.0.1:{find_free_port()}"
    variables = {
        "TURNLOG_DATA_DIR": str(folder / "data"),
        "TURNLOG_HTTP": address,
    }
    if COMMAND_WORDS[name][0] == "run":  # `up` has a server and a database of its own.
        variables |= {
            "TURNLOG_NATS_URL": server.url,
            "TURNLOG_NATS_MONITOR": server.monitor_url or "",
            "TURNLOG_DATABASE_URL": f"sqlite+aiosqlite:///{folder / 'rows.db'}",
            "TURNLOG_HEALTH": address,
        }
    # Executed, and not forked as the processes of tests are: what they import is what is measured.
    with (folder / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            PROGRAM_FOLDER / "turnlog",
            *COMMAND_WORDS[name],
            env=_build_environment(folder, variables),
            stdout=log,
            stderr=log,
        )
    try:
        yield _StartedProcess(process, address)
    finally:
        process.terminate()
        await process.wait()


def _build_environment(folder: Path, variables: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": f"{PROGRAM_FOLDER}:{os.defpath}", "HOME": str(folder), **variables}


def _measure_command(folder: Path, command: str) -> float:
    """Return the seconds of processor time that a command takes where no service answers."""
    words = (str(PROGRAM_FOLDER / "turnlog"), *command.split())
    before = _sum_processor_seconds(resource.getrusage(resource.RUSAGE_CHILDREN))
    subprocess.run(
        words,
        env=_build_environment(folder, {"TURNLOG_URL": "http://127.0.0.1:0"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    return _sum_processor_seconds(resource.getrusage(resource.RUSAGE_CHILDREN)) - before


def _sum_processor_seconds(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


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


def _read_processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _read_megabytes(pid: int) -> dict[str, float]:
    """Read the memory in megabytes, by the names that Linux gives the kinds of it."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {line.partition(":")[0]: int(line.split()[1]) / 1024 for line in lines}
