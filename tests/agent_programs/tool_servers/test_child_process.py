"""A server process ends with the worker that started it, even if it ignores signals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress

import pytest

from turnlog.services.worker.tools.child_process import wrap_command

HOLDER = """
import subprocess, sys, time
from turnlog.services.worker.tools.child_process import wrap_command
deaf = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
child = subprocess.Popen(wrap_command([sys.executable, "-S", "-c", deaf]), stdin=subprocess.PIPE)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a program with its parent")
async def test_server_that_ignores_signals_exits_with_its_killed_worker() -> None:
    piped = asyncio.subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLDER, stdout=piped)
    assert holder.stdout
    pid = int(await holder.stdout.readline())
    died = os.pidfd_open(pid)
    try:
        holder.send_signal(signal.SIGKILL)
        exited = asyncio.Event()
        asyncio.get_running_loop().add_reader(died, exited.set)
        async with asyncio.timeout(20):
            await exited.wait()
    finally:
        asyncio.get_running_loop().remove_reader(died)
        os.close(died)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await holder.wait()


def test_missing_program_is_named_in_the_error() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        wrap_command(["no-such-program"])
