"""One process that has imported everything, whose forks run the `turnlog` commands of all tests.

Importing takes three seconds, and litellm five more: longer than most tests. All pytest processes
of a run share the fork server, which the first of them starts that needs it, and which ends with
the run. A command is a fork of a fork: the first one supervises the second, passes signals on to
it, reports how it ended, and kills it when whoever asked for it is gone.
"""

from __future__ import annotations

import fcntl
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
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn, TextIO

_FOLDER_VARIABLE = "TEST_FORK_SERVER"
"""Where a test process finds the folder of its fork server; Turnlog refuses unknown `TURNLOG_*`."""

_PROJECT = Path(__file__).parents[3]

_PRELOADED_MODULES = "tests.support.processes.preloaded_modules"

_LENGTH = struct.Struct("!I")
"""What a request begins with: its length, sent along with the standard streams."""

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
            _start_server(address, run=(folder / "run").read_text())
    return address


def _start_server(address: Path, run: str) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(128)
        number = listener.fileno()
        # Its own session, so that Ctrl-C in the terminal of the tests does not end it.
        subprocess.run(
            [sys.executable, "-m", __name__, str(number), run],
            cwd=_PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            pass_fds=[number],
            start_new_session=True,
            check=True,
        )


def send_request(
    connection: socket.socket, request: CommandRequest, streams: Sequence[int]
) -> None:
    """Ask the fork server for a command; the connection then has its id and its exit code."""
    body = marshal.dumps(((*request.arguments,), request.folder, dict(request.variables)))
    socket.send_fds(connection, [_LENGTH.pack(len(body))], streams)
    connection.sendall(body)


def main() -> None:
    """Serve requests in the background until the process is gone that runs the tests."""
    number, run = map(int, sys.argv[1:])
    if os.fork():
        return
    with socket.socket(fileno=number) as listener, suppress(ProcessLookupError):
        ended = os.pidfd_open(run)
        import_module(_PRELOADED_MODULES)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        watched: tuple[int | socket.socket, ...] = (ended, listener)
        while ended not in select.select(watched, (), ())[0]:
            connection, _ = listener.accept()
            if not os.fork():
                listener.close()
                os.close(ended)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _supervise_command(connection)
            connection.close()


def _supervise_command(connection: socket.socket) -> NoReturn:
    """Fork a command, pass signals on to it, and report how it ended."""
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH.size, 3)
    (length,) = _LENGTH.unpack(head)
    request = CommandRequest(*marshal.loads(connection.recv(length, socket.MSG_WAITALL)))  # noqa: S302
    child = os.fork()
    if not child:
        connection.close()
        _run_as_program(streams, request)
    for stream in streams:
        os.close(stream)
    exited = os.pidfd_open(child)
    watched: tuple[int | socket.socket, ...] = (exited, connection)
    with suppress(OSError):
        connection.sendall(NUMBER.pack(child))
    while exited not in select.select(watched, (), ())[0]:
        # Whoever is gone that asked for a command takes it along.
        for number in connection.recv(64) or [signal.SIGKILL]:
            os.kill(child, number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):
        connection.sendall(NUMBER.pack(code))
    os._exit(0)


def _run_as_program(streams: Sequence[int], request: CommandRequest) -> NoReturn:
    """Run a command with these standard streams, and end as an interpreter does."""
    os.chdir(request.folder)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = _open_output(1, "surrogateescape")
    sys.stderr = _open_output(2, "backslashreplace", buffering=1)
    sys.argv = [*request.arguments]
    code = 0
    try:
        _run_command(request.arguments[1:], request.variables)
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


def _run_command(words: Sequence[str], variables: Mapping[str, str]) -> None:
    """Run `turnlog` in this process with these variables and no others."""
    os.environ.clear()
    os.environ.update(variables)
    for folder in filter(None, variables.get("PYTHONPATH", "").split(os.pathsep)):
        sys.path.insert(0, folder)
        if (customized := Path(folder) / "sitecustomize.py").is_file():
            runpy.run_path(str(customized), run_name="sitecustomize")
    from turnlog.services.cli.main import main as run_turnlog  # noqa: PLC0415 - behind the above

    run_turnlog(words)


if __name__ == "__main__":
    main()
