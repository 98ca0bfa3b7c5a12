"""Turnlog's own processes: started on free ports, stopped, killed and ended by their ids.

Their output goes to files, and a failing test shows the end of each. They get none of the
developer's variables beyond those of any container.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.support.processes.forked_program import get_forked_program
from tests.support.processes.turnlog_process import TurnlogProcess, start_turnlog

PROGRAM_FOLDER = Path(sys.executable).parent

EXIT_TIMEOUT = 60.0
"""Seconds until a process that does not exit is killed."""

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})

POLL_INTERVAL = 0.05
"""Seconds between two polls of what another process writes or serves."""


LISTENING_PORTS = range(12_000, 32_000)
"""Below the ports from which a system takes those of outgoing connections."""

_reserved_ports: list[socket.socket] = []


def find_free_port() -> int:
    """Reserve a port for a process that listens on it once it has started.

    A socket is bound to it until this process ends, so no other test process finds it free. The
    socket does not listen and allows others on its port, so a server can listen there.
    """
    while True:
        bound = socket.socket()
        try:
            bound.bind(("127.0.0.1", port := secrets.choice(LISTENING_PORTS)))
        except OSError:
            bound.close()
            continue
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _reserved_ports.append(bound)
        return port


@dataclass(repr=False)
class ProcessHost:
    """Where processes run; each of them gets `variables`."""

    folder: Path
    variables: Mapping[str, str]
    _started: list[TurnlogProcess] = field(default_factory=list[TurnlogProcess])

    async def start_process(
        self,
        *words: str,
        output_file: Path | None = None,
        variables: Mapping[str, str] = NO_VARIABLES,
    ) -> TurnlogProcess:
        """Run `turnlog` with these arguments; output goes to `output_file`, or a temporary one."""
        bare = {"PATH": f"{PROGRAM_FOLDER}:{os.defpath}", "HOME": str(self.folder)}
        process = await start_turnlog(words, {**bare, **self.variables, **variables}, output_file)
        self._started.append(process)
        return process

    async def stop_processes(self) -> None:
        """Stop the processes that still run; each must exit with 0."""
        await stop_cleanly(*(each for each in self._started if each.returncode is None))


@asynccontextmanager
async def run_process_host(
    folder: Path, variables: Mapping[str, str]
) -> AsyncGenerator[ProcessHost]:
    """Run a host; none of its processes outlives the body."""
    host = ProcessHost(folder, variables)
    try:
        yield host
    finally:
        await host.stop_processes()


async def stop_process(process: TurnlogProcess) -> int:
    """Ask a process to end, if it has not, and return its exit code."""
    if process.returncode is None:
        # A stopped process would not receive the signal.
        process.send_signal(signal.SIGCONT)
        process.terminate_process()
    return await wait_for_exit_code(process)


async def stop_cleanly(*processes: TurnlogProcess) -> None:
    """Stop processes at once, as far as they have not ended; each must exit with 0."""
    codes = await asyncio.gather(*(stop_process(process) for process in processes))
    failed = [each for each, code in zip(processes, codes, strict=True) if code]
    assert not failed, "\n".join(each.describe_output() for each in failed)


async def wait_for_exit_code(process: TurnlogProcess) -> int:
    """Wait for the exit code of a process; one that does not end is killed, which is -9."""
    try:
        async with asyncio.timeout(EXIT_TIMEOUT):
            return await process.wait_for_exit()
    except TimeoutError:
        process.kill_process()
        return await process.wait_for_exit()


async def wait_for_file(file: Path, process: TurnlogProcess) -> str:
    """Wait for a file of a process, and read it."""
    async with asyncio.timeout(EXIT_TIMEOUT):
        while (text := _read_existing(file)) is None:
            assert process.returncode is None, process.describe_output()
            await asyncio.sleep(POLL_INTERVAL)
    return text


def _read_existing(file: Path) -> str | None:
    return file.read_text() if file.exists() else None


async def run_turnlog(*arguments: str) -> tuple[int, str, str]:
    """Run a command of the command line and return its exit code, its output and its errors."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        await asyncio.to_thread(get_forked_program), *arguments, stdout=pipe, stderr=pipe
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()
