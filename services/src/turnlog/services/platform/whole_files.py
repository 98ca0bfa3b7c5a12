"""Files that are written whole: a crash leaves none, or all of it, and never a half."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_hex


def write_private_file(path: Path, content: str | bytes) -> None:
    """Write a file that only its owner may read, in place of one that is there.

    It survives a power loss once this returns.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def create_private_folder(folder: Path) -> None:
    """Create a folder that only its owner may enter, with those above it, to survive a power loss.

    One that is there stays as it is.
    """
    if not folder.exists():
        create_private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        sync_folder(folder.parent)


def create_file(file: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Create a file that survives a power loss once this returns, and the folders above it.

    `mode` is what the umask leaves of it. Raises `FileExistsError` if there is one of that name: of
    several processes, one succeeds.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_name(f".{file.name}.{token_hex(4)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as writer:
            writer.write(data)
            writer.flush()
            os.fsync(writer.fileno())
        file.hardlink_to(beside)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(file.parent)


def sync_folder(folder: Path) -> None:
    """Let what was created, renamed and removed in a folder survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
