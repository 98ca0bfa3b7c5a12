"""Turnlog's own processes: started on free ports, stopped, killed and ended by their ids.

Their output goes where pytest captures it, so a failing test shows it. They get none of the
developer's variables beyond those of any container.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.parts.forked import Process, forked

BIN = Path(sys.executable).parent
ENDS_WITHIN = 60.0
"""Seconds until a process that does not exit is killed."""
NOTHING: Mapping[str, str] = MappingProxyType({})
LOOK_EVERY = 0.05
"""Seconds between two polls of what another process writes or serves."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


@dataclass
class Machine:
    """Where processes run; each of them gets `variables`."""

    folder: Path
    variables: Mapping[str, str]
    _started: list[Process] = field(default_factory=list[Process])

    async def start(
        self, *words: str, said: Path | None = None, told: Mapping[str, str] = NOTHING
    ) -> Process:
        """Run `turnlog` with these arguments; output goes to the file `said`, or to pytest."""
        bare = {"PATH": f"{BIN}:{os.defpath}", "HOME": str(self.folder)}
        process = await forked(words, {**bare, **self.variables, **told}, said)
        self._started.append(process)
        return process

    async def end(self) -> None:
        """Stop the processes that still run; each must exit with 0."""
        running = [process for process in self._started if process.returncode is None]
        codes = await asyncio.gather(*(ended(process) for process in running))
        assert not any(codes), codes


@asynccontextmanager
async def machine(folder: Path, variables: Mapping[str, str]) -> AsyncGenerator[Machine]:
    """Run a host; none of its processes outlives the body."""
    given = Machine(folder, variables)
    try:
        yield given
    finally:
        await given.end()


async def ended(process: Process) -> int:
    """Ask a process to end, if it has not, and return its exit code."""
    if process.returncode is None:
        # A stopped process would not receive the signal.
        process.send_signal(signal.SIGCONT)
        process.terminate()
    return await exit_code(process)


async def exit_code(process: Process) -> int:
    """Wait for the exit code of a process; one that does not end is killed, which is -9."""
    try:
        async with asyncio.timeout(ENDS_WITHIN):
            return await process.wait()
    except TimeoutError:
        process.kill()
        return await process.wait()


async def written(file: Path, process: Process) -> str:
    """Wait for a file of a process, and read it."""
    async with asyncio.timeout(ENDS_WITHIN):
        while (text := _read(file)) is None:
            assert process.returncode is None, f"it ended with {process.returncode}"
            await asyncio.sleep(LOOK_EVERY)
    return text


def _read(file: Path) -> str | None:
    return file.read_text() if file.exists() else None
