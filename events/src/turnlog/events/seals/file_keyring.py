"""A keyring in a file, which is read again when it has changed.

So a process need not be started again for a generation that was added, and forgets one that was
retired.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from turnlog.events.seals.keyrings import StaticKeyring, WrappedKeys, parse_keyring

_log = logging.getLogger(__name__)

_FileMark = tuple[int, int, int]
"""What differs between two contents of a file: its inode, its time and its size."""


@dataclass(slots=True, eq=False)
class FileKeyring:
    """The keyring of a file.

    Every use looks whether the file is still the one that was read, which takes microseconds. While
    it is missing, or is no keyring, the last one that was read counts.
    """

    path: Path
    _keyring: StaticKeyring
    _mark: _FileMark | None

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a file; raises `OSError` or `ValueError` where it is no keyring."""
        mark = _read_mark(path)
        return cls(path, parse_keyring(path.read_text()), mark)

    async def find_generation(self) -> int:
        """See `SealKeyring.find_generation`."""
        return await self._refresh().find_generation()

    async def wrap_keys(self, tenant: str, keys: bytes) -> WrappedKeys:
        """See `SealKeyring.wrap_keys`."""
        return await self._refresh().wrap_keys(tenant, keys)

    async def unwrap_keys(self, tenant: str, keys: WrappedKeys) -> bytes:
        """See `SealKeyring.unwrap_keys`."""
        return await self._refresh().unwrap_keys(tenant, keys)

    def _refresh(self) -> StaticKeyring:
        """Return the keyring as the file has it now."""
        mark = _read_mark(self.path)
        if mark != self._mark:
            self._mark = mark
            try:
                self._keyring = parse_keyring(self.path.read_text())
            except (OSError, ValueError) as error:
                _log.warning("keyring-unusable: %s: %s; the last one counts", self.path, error)
        return self._keyring


def _read_mark(path: Path) -> _FileMark | None:
    """Return the mark of a file, or None if it cannot be read."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
