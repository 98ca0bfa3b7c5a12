"""A command at a terminal, and a user who types and reads there."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.support.processes.forked_program import get_forked_program

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x01\x02]")
HANGS = 60.0
"""Seconds after which a text does not come."""


@dataclass
class TerminalUser:
    """A user at a terminal who types, and reads until an expected text appears."""

    terminal: int
    process: subprocess.Popen[bytes]
    seen: str = field(default="")

    def send_line(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def repeat_until_seen(self, awaited: str, again: Callable[[], None]) -> None:
        """Repeat an action until its effect appears, because readline may miss an interrupt."""
        until = time.monotonic() + HANGS
        while awaited not in self.seen:
            assert time.monotonic() < until, f"{awaited!r} does not come: {self.seen}"
            again()
            while select.select([self.terminal], [], [], 0.5)[0]:
                self.seen += ESCAPES.sub("", os.read(self.terminal, 65_536).decode())
                if awaited in self.seen:
                    break
        self.seen = self.seen.partition(awaited)[2]

    def wait_for_text(self, awaited: str) -> None:
        self.read_until(awaited)

    def read_until(self, awaited: str) -> str:
        """Return what is shown before an expected text."""
        until = time.monotonic() + HANGS
        while awaited not in self.seen:
            ready, _, _ = select.select([self.terminal], [], [], until - time.monotonic())
            assert ready, f"{awaited!r} does not come: {self.seen}"
            self.seen += ESCAPES.sub("", os.read(self.terminal, 65_536).decode())
        before, _, self.seen = self.seen.partition(awaited)
        return before


@contextmanager
def run_at_terminal(*arguments: str) -> Generator[TerminalUser]:
    """Run a command of the command line at a terminal of 80 columns; it is killed at the end."""
    terminal_fd, child_fd = os.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"}
    process = subprocess.Popen(
        [str(get_forked_program()), *arguments],
        stdin=child_fd,
        stdout=child_fd,
        stderr=child_fd,
        env=environ,
        process_group=0,
    )
    os.close(child_fd)
    try:
        yield TerminalUser(terminal_fd, process)
    finally:
        process.kill()
        process.wait()
        os.close(terminal_fd)
