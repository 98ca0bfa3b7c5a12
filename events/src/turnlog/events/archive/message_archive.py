"""The archive as readers see it: messages by position and subject, as the stream had them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TypeVar
from zlib import crc32

from turnlog.events.archive.archive_index import (
    ArchiveIndex,
    ArchiveSummary,
    IndexedLine,
    MessageSelection,
    has_index,
    parse_subject_filter,
)
from turnlog.events.archive.session_files import decode_line, describe_damage, find_session_file
from turnlog.events.errors import Corrupt
from turnlog.events.store.ports import RawEvent

ResultT = TypeVar("ResultT")

MARKER_FILE: Final = "moving.json"
"""In a folder from when on the stream may lack what the index does not have yet."""

EVERYTHING: Final = MessageSelection()


class MessageArchive:
    """What was moved out of the stream of sessions, in files.

    All methods that read files wait in a thread. They raise `Corrupt` where a file is missing or
    not as it was written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index = ArchiveIndex(folder)

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
        found = [raw for file, wanted in by_file.items() for raw in _read_file(file, wanted)]
        return sorted(found, key=lambda raw: raw.stream_sequence)


def _read_file(file: Path, wanted: Sequence[IndexedLine]) -> list[RawEvent]:
    try:
        with file.open("rb") as opened:
            return [_read_line(opened, file, each) for each in wanted]
    except OSError as error:
        raise describe_damage(file, error.strerror or type(error).__name__) from error


def _read_line(opened: BinaryIO, file: Path, wanted: IndexedLine) -> RawEvent:
    opened.seek(wanted.start)
    line = opened.read(wanted.length)
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
