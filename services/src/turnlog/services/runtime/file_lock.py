"""A lock on a file that ends with the last process that holds it, however that process ends.

Two servers on one store would ruin it, and a process id in a file says nothing once ids are used
again. The kernel's own lock does: a killed holder frees it. A child may inherit the lock and keep
it beyond its parent. This module neither waits nor breaks a lock.
"""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import BinaryIO


def take_lock(path: Path) -> BinaryIO | None:
    """Return an open file that holds the lock until it is closed, or None when another holds it."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
