"""A server process that is stopped by a signal: its connections stay open and silent."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def stop_process(pid: int) -> AsyncGenerator[None]:
    """Stop a process while the block runs; the process is stopped when the block begins."""
    os.kill(pid, signal.SIGSTOP)
    try:
        while not _is_stopped(pid):  # noqa: ASYNC110 -- no event tells of it
            await asyncio.sleep(0.005)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(thread.read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)
