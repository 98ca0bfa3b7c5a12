"""A program `turnlog` that starts at once, for tests that run commands as a user does.

The program hands its arguments, folder, variables and standard streams to a process that has
imported everything. That process forks, and the fork runs the command; the program passes signals
on and ends as the fork does. So a command costs 0.05 s of processor time and not a second or more.
"""

from __future__ import annotations

import atexit
import marshal
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import NoReturn, TextIO

from tests.support.processes.turnlog_process import PRELOADED_MODULES, run_command

_LENGTH = struct.Struct("!I")
_EXIT_CODE = struct.Struct("!i")

_PROGRAM = """\
#!{python} -IS
import marshal, os, signal, socket, struct, sys

connection = socket.socket(socket.AF_UNIX)
connection.connect({address!r})
request = marshal.dumps((sys.argv, os.getcwd(), dict(os.environ)))
socket.send_fds(connection, [struct.pack("!I", len(request))], [0, 1, 2])
connection.sendall(request)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, lambda number, _: connection.send(bytes([number])))
(code,) = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@cache
def get_forked_program() -> Path:
    """Return the path of the program; the first call starts the process that it forks."""
    folder = Path(tempfile.mkdtemp(prefix="turnlog-"))
    address = str(folder / "socket")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED_MODULES)
    context.Process(target=_serve_requests, args=(listener,), daemon=True).start()
    listener.close()
    program = folder / "turnlog"
    program.write_text(_PROGRAM.format(python=sys.executable, address=address))
    program.chmod(0o755)
    atexit.register(partial(_remove_program, folder))
    return program


def _remove_program(folder: Path) -> None:
    for name in ("socket", "turnlog"):
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


def _serve_requests(listener: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if not os.fork():
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _supervise_command(connection)
        connection.close()


def _supervise_command(connection: socket.socket) -> NoReturn:
    """Fork a command, pass signals on to it, and report how it ended."""
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH.size, 3)
    (length,) = _LENGTH.unpack(head)
    request = marshal.loads(connection.recv(length, socket.MSG_WAITALL))  # noqa: S302
    child = os.fork()
    if not child:
        connection.close()
        _run_as_program(streams, *request)
    for stream in streams:
        os.close(stream)
    exited = os.pidfd_open(child)
    watched: tuple[int | socket.socket, ...] = (exited, connection)
    while exited not in select.select(watched, (), ())[0]:
        # A program that was killed takes its command with it.
        for number in connection.recv(64) or [signal.SIGKILL]:
            os.kill(child, number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(OSError):
        connection.sendall(_EXIT_CODE.pack(code))
    os._exit(0)


def _run_as_program(
    streams: Sequence[int], arguments: Sequence[str], folder: str, variables: Mapping[str, str]
) -> NoReturn:
    """Run a command with these standard streams, and end as an interpreter does."""
    os.chdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = _open_output(1, "surrogateescape")
    sys.stderr = _open_output(2, "backslashreplace", buffering=1)
    sys.argv = [*arguments]
    code = 0
    try:
        run_command(arguments[1:], variables)
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
