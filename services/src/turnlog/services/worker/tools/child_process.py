"""Child processes that end with the worker, however the worker ends.

A well-made server over stdio ends when its input does. Others would survive a worker that is
killed, so the kernel is asked to kill them where it can. This file runs as a script in front of the
program and replaces itself by it; it needs no installed package.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

_SET_PDEATHSIG = 1


def find_program(program: str) -> str | None:
    """Return where a program is: beside this interpreter before any other of its name."""
    beside = Path(sys.executable).parent
    return shutil.which(program, path=f"{beside}{os.pathsep}{os.environ.get('PATH', os.defpath)}")


def wrap_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command that runs a program bound to this process.

    Raises `FileNotFoundError` if there is no such program, and `PermissionError` if it is a file
    that is not executable.
    """
    program, *arguments = command
    found = find_program(program)
    if found is None:
        raise (PermissionError if Path(program).is_file() else FileNotFoundError)(program)
    return sys.executable, "-I", "-S", __file__, str(os.getpid()), found, *arguments


def _replace_process(holder: int, command: Sequence[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == holder:
        try:
            os.execv(command[0], [*command])  # noqa: S606 - it is what the blueprint names
        except OSError as error:
            sys.exit(f"{command[0]} cannot be executed: {error.strerror}")


if __name__ == "__main__":
    _replace_process(int(sys.argv[1]), sys.argv[2:])
