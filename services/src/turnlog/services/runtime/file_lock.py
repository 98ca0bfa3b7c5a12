from __future__ import annotations

import fcntl
from pathlib import Path
from typing import BinaryIO


def lock_file(path: Path) -> BinaryIO | None:
    """Return an open file that holds the lock until it is closed, or None if another holds it."""
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file
