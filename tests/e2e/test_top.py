"""`turnlog top` in a terminal of its own, against a running service."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.processes.process_host import PROGRAM_FOLDER, run_process_host
from tests.support.processes.separate_roles import build_settings
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer

pytestmark = pytest.mark.asyncio(loop_scope="session")

WAIT_SECONDS = 60.0
"""Seconds without any output after which what was waited for does not come."""

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class TopTerminal:
    """A terminal in which the command runs."""

    number: int
    process: subprocess.Popen[bytes]
    output: str = ""

    def read_until(self, is_shown: Callable[[str], bool]) -> str:
        """Return what was printed since the last call, once it shows something."""
        begin = len(self.output)
        while not is_shown(self.output[begin:]):
            ready, _, _ = select.select([self.number], [], [], WAIT_SECONDS)
            assert ready, f"not shown: {self.output[begin:]}"
            self.output += ESCAPES.sub(" ", os.read(self.number, 65_536).decode(errors="replace"))
        return self.output[begin:]

    def press(self, key: str) -> None:
        os.write(self.number, key.encode())


@contextmanager
def open_top(up: TurnlogUp) -> Generator[TopTerminal]:
    number, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    process = subprocess.Popen(
        [PROGRAM_FOLDER / "turnlog", "top", "--url", str(up.service.http.base_url)],
        stdin=other,
        stdout=other,
        stderr=other,
        env={"PATH": os.defpath, "HOME": os.environ["HOME"], "TERM": "xterm-256color"},
    )
    try:
        yield TopTerminal(number, process)
    finally:
        process.kill()
        process.wait()
        os.close(other)
        os.close(number)


@pytest_asyncio.fixture(loop_scope="session")
async def quiet(provider: OpenAIServer, tmp_path: Path) -> AsyncIterator[TurnlogUp]:
    """A service whose turns are those of one test."""
    async with (
        run_process_host(tmp_path, build_settings(provider)) as host,
        run_turnlog_up(host) as up,
    ):
        yield up


@pytest.mark.slow("a service, and a command in a terminal, are started")
async def test_top_shows_a_turn_as_it_happens_and_obeys_keys(
    quiet: TurnlogUp, provider: OpenAIServer
) -> None:
    gate = asyncio.Event()
    provider.queue_behaviours(ModelAnswer(tokens=("In ", "a moment."), gates={1: gate}))
    session = await quiet.service.open_session("assistant")
    with open_top(quiet) as terminal:
        await asyncio.to_thread(terminal.read_until, lambda text: " 0 in flight" in text)
        await quiet.service.submit_turn(session, "Now?")
        shown = await asyncio.to_thread(terminal.read_until, lambda text: " 1 in flight" in text)
        assert "budget ▼" in shown
        gate.set()
        await asyncio.to_thread(terminal.read_until, lambda text: " 0 in flight" in text)
        terminal.press("c")
        shown = await asyncio.to_thread(terminal.read_until, lambda text: "cost ▼" in text)
        assert session[:8] in terminal.output
        terminal.press("\x1b[17~")
        await asyncio.to_thread(terminal.read_until, lambda text: "failed" in text)
        terminal.press("z")
        await asyncio.to_thread(terminal.read_until, lambda text: "paused" in text)
        terminal.press("q")
        assert await asyncio.to_thread(terminal.process.wait, 20) == 0
