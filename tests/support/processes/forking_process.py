"""A process whose forks each run a program, so that what the program imports is imported once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

_FORKS = """
import asyncio, os, sys

for line in sys.stdin:
    answered, answer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(answer, str(asyncio.run(main(line.strip()))).encode())
        os._exit(0)
    os.close(answer)
    status = os.waitpid(child, 0)[1]
    print("ended", os.waitstatus_to_exitcode(status), os.read(answered, 20).decode(), flush=True)
    os.close(answered)
"""


@dataclass(frozen=True, slots=True)
class ForkingProcess:
    """Runs one fork at a time."""

    process: asyncio.subprocess.Process

    async def run_fork(self, argument: object) -> tuple[int, str]:
        """Run `main(argument)` in a fork; return its exit code and what `main` returned."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{argument}\n".encode())
        async for line in self.process.stdout:
            if line.startswith(b"ended "):
                code, _, answer = line.decode().removeprefix("ended ").strip().partition(" ")
                return int(code), answer
        raise AssertionError("it has ended")


@asynccontextmanager
async def start_forking_process(source: str, *arguments: str) -> AsyncGenerator[ForkingProcess]:
    """Start the process of a source that defines `async def main(argument)`; it has `sys.argv`."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", source + _FORKS, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield ForkingProcess(process)
        await process.communicate(b"")  # nothing more is asked
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)  # with the fork that it waits for
            await process.wait()
    assert process.returncode == 0
