"""A program `turnlog` that starts at once, for tests that run commands as a user does.

The program hands its arguments, folder, variables and standard streams to the fork server, passes
signals on to the fork that runs the command, and ends as that does. So a command costs 0.05 s of
processor time and not a second or more.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.processes.fork_server import find_fork_server

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
_, code = struct.unpack("!ii", connection.makefile("rb").read(8))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def get_forked_program() -> Path:
    """Return the path of the program."""
    address = find_fork_server()
    program = address.with_name("turnlog")
    if not program.exists():
        write_forked_program(program, address)
    return program


def write_forked_program(program: Path, address: Path) -> None:
    """Write a program that is run by a fork of the server at an address."""
    written = program.with_name(f"{program.name}-{os.getpid()}")
    written.write_text(_PROGRAM.format(python=sys.executable, address=str(address)))
    written.chmod(0o755)
    written.rename(program)
