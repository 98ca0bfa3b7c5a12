"""One process that has imported everything, whose forks run the `turnlog` commands of all tests.

Importing takes three seconds, and litellm five more: longer than most tests. All pytest processes
of a run share the fork server, which the first of them starts that needs it, and which ends with
the run. A command is a fork: the server passes signals on to it, reports how it ended, and kills
it when whoever asked for it is gone.

The pytest processes of `-n` are forks too, of a second server: the first one's fork, which has
imported the tests in addition (`forked_workers`).
"""

from __future__ import annotations

import ctypes
import fcntl
import gc
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, NoReturn, TextIO

from turnlog.services.platform.gc_control import freeze_live_objects

_FOLDER_VARIABLE = "TEST_FORK_SERVER"
"""Where a test process finds the folder of its fork server; Turnlog refuses unknown `TURNLOG_*`."""

_PROJECT = Path(__file__).parents[3]

_PRELOADED_MODULES = "tests.support.processes.preloaded_modules"

_FORKED_WORKERS = "tests.support.processes.forked_workers"

_LENGTH = struct.Struct("!I")
"""What a request begins with: its length, sent along with the standard streams."""

_LARGE_PAGE = 2 * 1024 * 1024

_COLLAPSE = 25
"""`MADV_COLLAPSE`, which Linux has since 6.1: put the memory of a range into one large page."""

WORKERS_SOCKET = "workers"
"""The file name of the address whose forks are pytest processes."""

NUMBER = struct.Struct("!i")
"""What the supervisor answers: the id of the process at once, and the exit code at its end."""


class CommandRequest(NamedTuple):
    """A command to run; it is sent with its three standard streams."""

    arguments: Sequence[str]
    """The name of the program and its arguments."""
    folder: str
    variables: Mapping[str, str]


def announce_fork_server() -> Path | None:
    """Choose the folder of a run's fork server; None if this process belongs to another's run."""
    if _FOLDER_VARIABLE in os.environ:
        return None
    folder = Path(tempfile.mkdtemp(prefix="turnlog-forks-"))
    (folder / "run").write_text(str(os.getpid()))
    os.environ[_FOLDER_VARIABLE] = str(folder)
    return folder


def forget_fork_server(folder: Path) -> None:
    """Remove the folder, at the end of the run."""
    del os.environ[_FOLDER_VARIABLE]
    shutil.rmtree(folder)


def find_fork_server() -> Path:
    """Return the address of the fork server; start it if no process of the run has done so yet."""
    folder = Path(os.environ[_FOLDER_VARIABLE])
    address = folder / "socket"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not address.exists():
            start_fork_server(folder)
    return address


def start_fork_server(folder: Path, tests: Sequence[str] = ()) -> None:
    """Start the server of a run; with `tests`, also the one that imports them and forks workers."""
    names = ["socket", *([WORKERS_SOCKET] if tests else [])]
    with ExitStack() as stack:
        numbers = [_open_listener(stack, folder / name) for name in names]
        # Its own session, so that Ctrl-C in the terminal of the tests does not end it.
        subprocess.run(
            [
                *(sys.executable, "-m", __name__, (folder / "run").read_text()),
                *(",".join(map(str, numbers)), *tests),
            ],
            cwd=_PROJECT,
            stdin=subprocess.DEVNULL,
            # A test that captures `sys.stderr` may be the first to need it.
            stdout=2,
            pass_fds=numbers,
            start_new_session=True,
            check=True,
        )


def _open_listener(stack: ExitStack, address: Path) -> int:
    """Listen before the server does, which takes requests once it has imported everything."""
    listener = stack.enter_context(socket.socket(socket.AF_UNIX))
    listener.bind(str(address))
    listener.listen(128)
    return listener.fileno()


def send_request(
    connection: socket.socket, request: CommandRequest, streams: Sequence[int]
) -> None:
    """Ask the fork server for a command; the connection then has its id and its exit code."""
    body = marshal.dumps(((*request.arguments,), request.folder, dict(request.variables)))
    socket.send_fds(connection, [_LENGTH.pack(len(body))], streams)
    connection.sendall(body)


def main() -> None:
    """Serve requests in the background until the process is gone that runs the tests."""
    run, listed, *tests = sys.argv[1:]
    commands, *workers = map(int, listed.split(","))
    if os.fork():
        return
    gc.disable()
    import_module(_PRELOADED_MODULES)
    gc.enable()
    _prepare_forks()
    if not workers:
        _serve_requests(commands, int(run), _run_turnlog)
    elif os.fork():
        os.close(workers[0])
        _serve_requests(commands, int(run), _run_turnlog)
    else:
        os.close(commands)
        import_module(_FORKED_WORKERS).import_tests(tests)
        _serve_requests(workers[0], int(run), _run_source)


def _prepare_forks() -> None:
    """Make the forks of this process cheap, now that it has imported what they need.

    A fork copies the table of the pages: 20 ms of processor time with small pages, 4 with large
    ones, which a system that has none simply refuses. The first full collection in a fork would
    copy every page that has an object, which takes half a second.
    """
    gc.collect()
    freeze_live_objects()
    madvise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text().splitlines():
        bounds, access, _, _, _, *file = line.split()
        if access != "rw-p" or file not in ([], ["[heap]"]):
            continue
        first, last = (int(bound, 16) // _LARGE_PAGE for bound in bounds.split("-"))
        for page in range(first + 1, last):
            madvise(ctypes.c_void_p(page * _LARGE_PAGE), ctypes.c_size_t(_LARGE_PAGE), _COLLAPSE)


@dataclass(slots=True)
class _RunningCommand:
    """A fork that runs a command, and the connection of whoever asked for it."""

    pid: int
    connection: socket.socket
    is_wanted: bool = True

    def pass_signals(self) -> None:
        """Pass on the signals that were sent."""
        numbers = b""
        with suppress(OSError):
            numbers = self.connection.recv(64)
        self.is_wanted = bool(numbers)
        # Whoever is gone that asked for a command takes it along.
        for number in numbers or [signal.SIGKILL]:
            os.kill(self.pid, number)

    def report_exit(self) -> None:
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with suppress(OSError):
            self.connection.sendall(NUMBER.pack(code))
        self.connection.close()


def _serve_requests(number: int, run: int, program: Callable[[CommandRequest], None]) -> None:
    """Run the program in a fork for each request, and supervise the forks until all have ended.

    One process supervises them all: a fork of one that has imported everything is not cheap.
    """
    listener = socket.socket(fileno=number)
    running: dict[int, _RunningCommand] = {}
    ended = _open_process(run)
    served = {number, ended}
    while served or running:
        asking = {each.connection.fileno(): each for each in running.values() if each.is_wanted}
        ready = {*select.select((*served, *running, *asking), (), ())[0]}
        for each in ready & asking.keys():
            asking[each].pass_signals()
        for each in ready & running.keys():
            running.pop(each).report_exit()
            os.close(each)
        if ended in ready:
            served.clear()
        elif number in ready and (command := _accept_command(listener, ended, running, program)):
            running[_open_process(command.pid)] = command


def _open_process(pid: int) -> int:
    """Return a descriptor that is readable once a process has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return os.open(os.devnull, os.O_RDONLY)


def _accept_command(
    listener: socket.socket,
    ended: int,
    running: Mapping[int, _RunningCommand],
    program: Callable[[CommandRequest], None],
) -> _RunningCommand | None:
    """Fork the command that is asked for next; None if whoever asked was killed meanwhile."""
    connection, _ = listener.accept()
    try:
        head, streams, _, _ = socket.recv_fds(connection, _LENGTH.size, 3)
        (length,) = _LENGTH.unpack(head)
        request = CommandRequest(*marshal.loads(connection.recv(length, socket.MSG_WAITALL)))  # noqa: S302
    except (OSError, EOFError, ValueError, struct.error):
        connection.close()
        return None
    child = os.fork()
    if not child:
        connection.close()
        listener.close()
        for each, command in running.items():
            os.close(each)
            command.connection.close()
        os.close(ended)
        _run_as_program(streams, request, program)
    for stream in streams:
        os.close(stream)
    with suppress(OSError):
        connection.sendall(NUMBER.pack(child))
    return _RunningCommand(child, connection)


def _run_as_program(
    streams: Sequence[int], request: CommandRequest, program: Callable[[CommandRequest], None]
) -> NoReturn:
    """Run a command with these standard streams, and end as an interpreter does."""
    os.chdir(request.folder)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = _open_output(1, "surrogateescape")
    sys.stderr = _open_output(2, "backslashreplace", buffering=1)
    sys.argv = [*request.arguments]
    os.environ.clear()
    os.environ.update(request.variables)
    code = 0
    try:
        program(request)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined] # as the interpreter does
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _open_output(number: int, errors: str, buffering: int = -1) -> TextIO:
    lines = 1 if os.isatty(number) else buffering
    return open(number, "w", lines, encoding="utf-8", errors=errors, closefd=False)


def _run_turnlog(request: CommandRequest) -> None:
    """Run `turnlog` in this process, as one with these variables would."""
    for folder in filter(None, request.variables.get("PYTHONPATH", "").split(os.pathsep)):
        sys.path.insert(0, folder)
        if (customized := Path(folder) / "sitecustomize.py").is_file():
            runpy.run_path(str(customized), run_name="sitecustomize")
    from turnlog.services.cli.main import main as run_turnlog  # noqa: PLC0415 - behind the above

    run_turnlog(request.arguments[1:])


def _run_source(request: CommandRequest) -> None:
    """Run the source that `python -u -c` would run."""
    sys.argv = ["-c"]
    sys.modules["__main__"] = main_module = ModuleType("__main__")
    exec(request.arguments[-1], vars(main_module))  # noqa: S102


if __name__ == "__main__":
    main()
