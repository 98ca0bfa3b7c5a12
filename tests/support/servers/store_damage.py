"""Damage to the files of a nats-server's store, as a failing disk or a careless hand does it.

The server must have been stopped in good order: its index then vouches for the blocks, and it does
not notice on the next start that the bytes of a message have changed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_RECORD_HEAD = struct.Struct("<IQQH")
"""Length of the record, its stream sequence, its time, and the length of its subject."""

_HAS_HEADERS = 0x80000000
"""The bit of the length that says that headers follow the subject."""


@dataclass(frozen=True, slots=True)
class StoredStream:
    """The files of one stream in a data directory; its only block is not compressed."""

    data_dir: Path
    stream: str

    @property
    def folder(self) -> Path:
        return self.data_dir / "jetstream/$G/streams" / self.stream / "msgs"

    @property
    def block(self) -> Path:
        (block,) = self.folder.glob("*.blk")
        return block

    @property
    def index(self) -> Path:
        return self.folder / "index.db"

    def list_records(self) -> dict[int, tuple[int, int]]:
        """Return begin and end of each record in the block, by stream sequence."""
        return {number: (begin, end) for number, begin, end in self._iterate_records()}

    def _iterate_records(self) -> Iterator[tuple[int, int, int]]:
        stored, begin = self.block.read_bytes(), 0
        while begin < len(stored):
            length, number, _, _ = _RECORD_HEAD.unpack_from(stored, begin)
            end = begin + (length & ~_HAS_HEADERS)
            yield number, begin, end
            begin = end

    def flip_byte(self, sequence: int, offset: int | None = None) -> None:
        """Change one byte of a message's record, by default in the middle."""
        begin, end = self.list_records()[sequence]
        stored = bytearray(self.block.read_bytes())
        stored[(begin + end) // 2 if offset is None else begin + offset] ^= 1
        self.block.write_bytes(stored)

    def drop_messages(self, subjects: str) -> None:
        """Leave a block without the messages under these subjects, as a purge does."""
        stored = self.block.read_bytes()
        kept = [
            stored[begin:end]
            for begin, end in self.list_records().values()
            if not stored[begin + _RECORD_HEAD.size : end].startswith(subjects.encode())
        ]
        self.block.write_bytes(b"".join(kept))
        self.index.unlink()

    def drop_sequence(self, sequence: int) -> None:
        """Leave a block without one message, and the server without the index that counts it."""
        begin, end = self.list_records()[sequence]
        stored = self.block.read_bytes()
        self.block.write_bytes(stored[:begin] + stored[end:])
        self.index.unlink()

    def cut_tail(self, messages: int) -> None:
        """Cut the last messages off the block."""
        records = self.list_records()
        (first, _) = records[max(records) - messages + 1]
        self.block.write_bytes(self.block.read_bytes()[:first])
