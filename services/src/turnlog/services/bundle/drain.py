"""A file that is written on one side and sent on from the other, so that none of it is kept."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Drain:
    """As much of a file as writers of archives ask for: no reading, no going back."""

    held: bytearray = field(default_factory=bytearray)
    written: int = 0
    closed: bool = False

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Take bytes in."""
        self.held += data
        self.written += len(data)
        return len(data)

    def tell(self) -> int:
        """Tell how many there were so far."""
        return self.written

    def flush(self) -> None:
        """Do nothing: whoever sends takes what there is."""

    def close(self) -> None:
        """Take nothing more."""
        self.closed = True

    def taken(self) -> bytes:
        """Give what was written since this was asked last."""
        taken = bytes(self.held)
        self.held.clear()
        return taken
