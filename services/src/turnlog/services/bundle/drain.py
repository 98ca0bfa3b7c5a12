from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class ExportBuffer:
    """A write-only file object for archive writers, emptied while the archive is sent.

    It keeps only the bytes that were written since the last `pop_bytes`. Reading and seeking are
    not supported.
    """

    pending: bytearray = field(default_factory=bytearray)
    byte_count: int = 0
    closed: bool = False

    def write(self, data: bytes | bytearray | memoryview) -> int:
        self.pending += data
        self.byte_count += len(data)
        return len(data)

    def tell(self) -> int:
        return self.byte_count

    def flush(self) -> None:
        """Do nothing; `pop_bytes` returns everything written so far."""

    def close(self) -> None:
        self.closed = True

    def pop_bytes(self) -> bytes:
        """Return the bytes written since the last call."""
        taken = bytes(self.pending)
        self.pending.clear()
        return taken
