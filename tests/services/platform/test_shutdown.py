"""A service that is asked to stop while it starts stops in good order, with exit code 0."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.processes.blocking_turnlog_up import TURNLOG_PROGRAM
from turnlog.events.errors import Unavailable
from turnlog.services.platform.nats_server import lock_file
from turnlog.services.platform.shutdown import Shutdown

SIGNALLED_DURING_IMPORTS = """
import os, signal, sys

class SignallingFinder:
    def find_spec(self, name, path=None, target=None):
        if name == "turnlog.services.cli.actions.service_start":
            os.kill(os.getpid(), signal.Signals[sys.argv[1]])

sys.meta_path.insert(0, SignallingFinder())
from turnlog.services.cli.main import main
main(sys.argv[2:])
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("words", [("up",), ("run", "gateway")])
async def test_signal_during_imports_exits_with_code_zero(
    tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SIGNALLED_DURING_IMPORTS, name, *words, cwd=tmp_path
    )
    assert await process.wait() == 0
    assert not any(Path(tmp_path).iterdir())  # noqa: ASYNC240


@pytest.mark.slow("a program is executed, not forked")
async def test_hangup_of_a_terminal_does_not_end_what_nohup_started(tmp_path: Path) -> None:
    words = ("nohup", TURNLOG_PROGRAM, "up", "--data-dir", "data", "--http", "127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(*words, cwd=tmp_path, stderr=PIPE)
    try:
        assert process.stderr is not None
        async with asyncio.timeout(120):
            while not (line := await process.stderr.readline()).startswith(b"turnlog is up"):
                assert line, "it ended"
        process.send_signal(signal.SIGHUP)
        address = json.loads((tmp_path / "data/ready.json").read_bytes())["http"]
        async with httpx.AsyncClient() as http:
            for _ in range(3):
                assert (await http.get(f"{address}/healthz")).is_success
        assert process.returncode is None
    finally:
        process.terminate()
        await process.communicate()
    assert process.returncode == 0


@pytest.mark.slow("a program is executed, not forked")
async def test_signal_ends_a_waiting_start_immediately(tmp_path: Path) -> None:
    # The lock of a server that seems to run: a start waits for it for a minute.
    lock = lock_file(tmp_path / "server.lock")
    assert lock is not None
    with lock:
        process = await asyncio.create_subprocess_exec(
            TURNLOG_PROGRAM, "up", "--data-dir", str(tmp_path)
        )
        async with asyncio.timeout(60):
            while not (tmp_path / "server.conf").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        process.terminate()
        async with asyncio.timeout(30):
            assert await process.wait() == 0


async def test_cancelled_start_runs_its_cleanup() -> None:
    shutdown, steps = Shutdown(), list[str]()

    @asynccontextmanager
    async def start_forever() -> AsyncGenerator[None]:
        try:
            shutdown.handle_signals()
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
            yield
        finally:
            await asyncio.sleep(0.05)
            steps.append("undone")

    await shutdown.run_until_end(start_forever(), lambda _: steps.append("started"))
    assert steps == ["undone"]


async def test_component_lost_during_the_start_fails_the_start() -> None:
    shutdown = Shutdown()

    @asynccontextmanager
    async def lose_component() -> AsyncGenerator[None]:
        shutdown.create_loss_callback("nats")()
        await asyncio.Event().wait()
        yield

    with pytest.raises(Unavailable, match="nats"):
        await shutdown.run_until_end(lose_component(), lambda _: None)
