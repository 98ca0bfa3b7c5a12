"""`turnlog` as a process that starts at once, by forking one that has imported everything.

Importing takes three seconds, and litellm five more: longer than most tests. One process for each
pytest process imports everything; the processes that tests start are its forks, each with its own
id, memory, signals and exit. Starting the command line by executing it is tested in `tests/deploy`
and by the commands of the README.
"""

from __future__ import annotations

import asyncio
import os
import runpy
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path

_FORK_CONTEXT = get_context("forkserver")

PRELOADED_MODULES = ["tests.support.processes.preloaded_modules"]
"""What the process imports that all others are forks of."""

SHOWN_OUTPUT = 6_000
"""Characters of a process's output that a failure shows: its end."""


@dataclass(frozen=True, slots=True)
class TurnlogProcess:
    """A process that runs or has ended."""

    fork_process: ForkServerProcess
    words: Sequence[str]
    """What `turnlog` was called with."""
    output_file: Path

    @property
    def pid(self) -> int:
        assert self.fork_process.pid is not None
        return self.fork_process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while it runs; negative if a signal ended it."""
        return self.fork_process.exitcode

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
        end = os.dup(self.fork_process.sentinel)
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
        self.fork_process.join(within)
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
    _FORK_CONTEXT.set_forkserver_preload(PRELOADED_MODULES)
    if output_file is None:
        handle, name = tempfile.mkstemp(".log", "-".join(words[:2]), _get_output_folder().name)
        os.close(handle)
        output_file = Path(name)
    fork = _FORK_CONTEXT.Process(target=_run_command, args=(words, variables, output_file))
    fork.start()
    process = TurnlogProcess(fork, words, output_file)
    _recent_processes.append(process)
    return process


def _run_command(words: Sequence[str], variables: Mapping[str, str], output_file: Path) -> None:
    with output_file.open("ab") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    run_command(words, variables)


def run_command(words: Sequence[str], variables: Mapping[str, str]) -> None:
    """Run `turnlog` in this process with these variables and no others."""
    os.environ.clear()
    os.environ.update(variables)
    for folder in filter(None, variables.get("PYTHONPATH", "").split(os.pathsep)):
        sys.path.insert(0, folder)
        if (customized := Path(folder) / "sitecustomize.py").is_file():
            runpy.run_path(str(customized), run_name="sitecustomize")
    from turnlog.services.cli.main import main  # noqa: PLC0415 - behind what stands before imports

    main(words)
