"""The archive as readers see it: messages by position and subject, as the stream had them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Final
from zlib import crc32

from turnlog.events.archive.archive_index import (
    ArchiveIndex,
    ArchiveSummary,
    IndexedLine,
    MessageSelection,
    has_index,
    parse_subject_filter,
)
from turnlog.events.archive.session_files import (
    decode_line,
    describe_damage,
    find_session_file,
    read_session_file,
)
from turnlog.events.errors import Corrupt
from turnlog.events.store.ports import RawEvent

MARKER_FILE: Final = "moving.json"
"""In a folder from when on the stream may lack what the index does not have yet."""

UNPACKED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of unpacked files that are kept; a longer one is kept alone."""

EVERYTHING: Final = MessageSelection()


class UnpackedFiles:
    """The files that were read last, unpacked; threads share them."""

    def __init__(self) -> None:
        self._texts = OrderedDict[Path, bytes]()
        self._size = 0
        self._lock = Lock()

    def read_file(self, file: Path) -> bytes:
        """Return what the file of a session unpacks to; raises `Corrupt`."""
        with self._lock:
            if file in self._texts:
                self._texts.move_to_end(file)
                return self._texts[file]
        text = read_session_file(file)
        with self._lock:
            self._size += len(text) - len(self._texts.get(file, b""))
            self._texts[file] = text
            while self._size > UNPACKED_BYTES and len(self._texts) > 1:
                self._size -= len(self._texts.popitem(last=False)[1])
        return text


class MessageArchive:
    """What was moved out of the stream of sessions, in files.

    All methods that read files wait in a thread. They raise `Corrupt` where a file is missing or
    not as it was written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index = ArchiveIndex(folder)
        self._unpacked = UnpackedFiles()

    def close(self) -> None:
        """Close the index."""
        self._index.close()

    @property
    def count(self) -> int:
        """How many messages are archived."""
        return self._index.count

    def summarise(self) -> ArchiveSummary:
        """Return how much is archived."""
        return self._index.summarise()

    def has_message(self, position: int) -> bool:
        """Return whether the message at a position is archived; it takes some microseconds."""
        return position <= self._index.last_position and self._index.has_message(position)

    def find_last_position(self, subjects: str) -> int:
        """Return the position of the last message under a subject filter; 0 if there is none.

        It takes some microseconds.
        """
        last = self._index.find_last_line(parse_subject_filter(subjects))
        return last.position if last else 0

    async def get_message(self, position: int) -> RawEvent | None:
        """Return the message at a position of the stream, or None."""
        if position > self._index.last_position:
            return None
        found = await self._read(lambda: self._index.list_lines(EVERYTHING, position, position, 1))
        return found[0] if found else None

    async def get_last_message(self, subjects: str) -> RawEvent | None:
        """Return the last message under a subject filter, or None."""
        selection = parse_subject_filter(subjects)
        last = await asyncio.to_thread(self._index.find_last_line, selection)
        return (await self._read(lambda: [last]))[0] if last else None

    async def list_messages(
        self, subjects: str, start: int, count: int, upto: int | None = None
    ) -> Sequence[RawEvent]:
        """Return up to `count` messages under a subject filter, in order, from a position on."""
        if start > self._index.last_position:
            return []
        selection = parse_subject_filter(subjects)
        return await self._read(lambda: self._index.list_lines(selection, start, upto, count))

    async def count_messages(self, subjects: str) -> int:
        """Return how many messages are archived under a subject filter."""
        selection = parse_subject_filter(subjects)
        return await asyncio.to_thread(self._index.count_messages, selection)

    async def list_subjects(self, subjects: str) -> Sequence[str]:
        """Return the subjects of what is archived under a subject filter."""
        selection = parse_subject_filter(subjects)
        return await asyncio.to_thread(self._index.list_subjects, selection)

    async def _read(self, find: Callable[[], Sequence[IndexedLine]]) -> list[RawEvent]:
        return await asyncio.to_thread(lambda: self._read_lines(find()))

    def _read_lines(self, lines: Sequence[IndexedLine]) -> list[RawEvent]:
        """Return the messages of lines; each file is opened once."""
        by_file: dict[Path, list[IndexedLine]] = {}
        for line in lines:
            file = find_session_file(self.folder, line.tenant, line.session)
            by_file.setdefault(file, []).append(line)
        found: list[RawEvent] = []
        for file, wanted in by_file.items():
            text = self._unpacked.read_file(file)
            found += [_find_line(file, text, each) for each in wanted]
        return sorted(found, key=lambda raw: raw.stream_sequence)


def _find_line(file: Path, text: bytes, wanted: IndexedLine) -> RawEvent:
    line = text[wanted.start : wanted.start + wanted.length]
    if crc32(line) != wanted.checksum:
        raise describe_damage(file, f"the event at position {wanted.position} was altered")
    return decode_line(file, line)


def open_archive(folder: Path | None) -> MessageArchive | None:
    """Return the archive in a folder; None where none is configured or nothing is archived.

    Raises `Corrupt` where sessions are being moved into it.
    """
    if folder is None:
        return None
    if (folder / MARKER_FILE).exists():
        detail = "sessions are being moved into it, or a run was interrupted"
        raise Corrupt(f"archive {folder}", f"{detail}: run `turnlog archive finish`")
    return MessageArchive(folder) if has_index(folder) else None
