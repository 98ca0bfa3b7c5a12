"""`turnlog` as a process that starts at once, by forking one that has imported everything.

The processes that tests start are forks, each with its own id, memory, signals and exit. Starting
the command line by executing it is tested in `tests/deploy` and by the commands of the README.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import wait
from pathlib import Path

from tests.support.processes.fork_server import (
    NUMBER,
    CommandRequest,
    find_fork_server,
    send_request,
)

SHOWN_OUTPUT = 6_000
"""Characters of a process's output that a failure shows: its end."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TurnlogProcess:
    """A process that runs or has ended."""

    pid: int
    supervisor: socket.socket
    """Sends the exit code; it kills the process once this object is gone."""
    words: Sequence[str]
    """What `turnlog` was called with."""
    output_file: Path

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while it runs; negative if a signal ended it."""
        if not wait([self.supervisor], 0):
            return None
        (code,) = NUMBER.unpack(self.supervisor.recv(NUMBER.size, socket.MSG_PEEK))
        return int(code)

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def terminate_process(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill_process(self) -> None:
        self.send_signal(signal.SIGKILL)

    def describe_output(self) -> str:
        """Return the exit code, if it has ended, and the end of its output."""
        ended = "" if self.returncode is None else f" ended with {self.returncode}"
        output = self.output_file.read_text(errors="replace") if self.output_file.exists() else ""
        return f"`turnlog {' '.join(self.words)}`{ended}:\n{output[-SHOWN_OUTPUT:]}"

    async def wait_for_exit(self) -> int:
        """Wait until it ends and return its exit code."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        # Each waiter has its own descriptor, because a loop can watch a descriptor only once.
        end = os.dup(self.supervisor.fileno())
        loop.add_reader(end, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(end)
            os.close(end)
        assert self.returncode is not None
        return self.returncode

    def join_process(self, within: float) -> int | None:
        """Wait at most `within` seconds without an event loop; return the exit code, or None."""
        wait([self.supervisor], within)
        return self.returncode


@cache
def _get_output_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="turnlog-output-")


_recent_processes: deque[TurnlogProcess] = deque(maxlen=6)


def iterate_recent_outputs() -> Iterator[str]:
    """Iterate over the outputs of the processes that were started last."""
    for process in _recent_processes:
        yield process.describe_output()


async def start_turnlog(
    words: Sequence[str], variables: Mapping[str, str], output_file: Path | None
) -> TurnlogProcess:
    """Run `turnlog` with these arguments; output goes to `output_file`, or to a temporary one."""
    return await asyncio.to_thread(fork_turnlog, words, variables, output_file)


def fork_turnlog(
    words: Sequence[str], variables: Mapping[str, str], output_file: Path | None
) -> TurnlogProcess:
    """Run `turnlog` likewise and block until it has started; the first start imports everything."""
    if output_file is None:
        handle, name = tempfile.mkstemp(".log", "-".join(words[:2]), _get_output_folder().name)
        os.close(handle)
        output_file = Path(name)
    supervisor = socket.socket(socket.AF_UNIX)
    supervisor.connect(str(find_fork_server()))
    request = CommandRequest(("turnlog", *words), str(Path.cwd()), variables)
    with Path(os.devnull).open("rb") as nothing, output_file.open("ab") as output:
        send_request(supervisor, request, [nothing.fileno(), output.fileno(), output.fileno()])
    (pid,) = NUMBER.unpack(supervisor.recv(NUMBER.size, socket.MSG_WAITALL))
    process = TurnlogProcess(pid, supervisor, words, output_file)
    weakref.finalize(process, supervisor.close)
    _recent_processes.append(process)
    return process
