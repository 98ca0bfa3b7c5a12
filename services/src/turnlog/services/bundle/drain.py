from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Drain:
    """A write-only file object for archive writers, emptied while the archive is sent.

    It keeps only the bytes that were written since the last `pop_bytes`. Reading and seeking are
    not supported.
    """

    held: bytearray = field(default_factory=bytearray)
    written: int = 0
    closed: bool = False

    def write(self, data: bytes | bytearray | memoryview) -> int:
        self.held += data
        self.written += len(data)
        return len(data)

    def tell(self) -> int:
        return self.written

    def flush(self) -> None:
        """Do nothing; `pop_bytes` returns everything written so far."""

    def close(self) -> None:
        self.closed = True

    def taken(self) -> bytes:
        """Return the bytes written since the last call."""
        taken = bytes(self.held)
        self.held.clear()
        return taken
