"""The index of an archive: which message is in which file, in one SQLite file beside them.

It follows from the files alone. Processes only read it, so any number of them share it.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

from turnlog.events.archive.session_files import ArchivedLine
from turnlog.events.errors import Corrupt
from turnlog.events.subjects import SESSION_HISTORY

INDEX_FILE: Final = "index.db"

NEXT_INDEX_FILE: Final = "next-index.db"
"""The index as it is once the sessions that are being moved are in the stream no more."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS sessions (
    id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, session TEXT NOT NULL, UNIQUE (session, tenant)
);
CREATE TABLE IF NOT EXISTS messages (
    position INTEGER PRIMARY KEY, owner INTEGER NOT NULL REFERENCES sessions, leaf TEXT NOT NULL,
    start INTEGER NOT NULL, length INTEGER NOT NULL, checksum INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS messages_of_session ON messages (owner, position);
CREATE INDEX IF NOT EXISTS messages_of_leaf ON messages (leaf, position);
"""

_SOURCE: Final = "FROM messages JOIN sessions ON sessions.id = messages.owner WHERE true"

_LINES: Final = f"SELECT position, tenant, session, start, length, checksum {_SOURCE}"


class IndexedLine(NamedTuple):
    """Where a message is: its position in the stream, its session, and its line in the file."""

    position: int
    tenant: str
    session: str
    start: int
    length: int
    checksum: int


@dataclass(frozen=True, slots=True)
class ArchiveSummary:
    """How much an archive has."""

    sessions: int
    events: int
    size: int
    """Bytes of the files of the sessions, unpacked."""


@dataclass(frozen=True, slots=True)
class MessageSelection:
    """Which messages are asked for; None is any."""

    tenant: str | None = None
    session: str | None = None
    leaf: str | None = None

    def build_condition(self) -> tuple[str, list[object]]:
        """Return the condition in SQL, and the values in it."""
        asked = {
            "tenant": self.tenant,
            "session": self.session,
            "leaf": self.leaf,
        }
        given = {name: value for name, value in asked.items() if value is not None}
        return "".join(f" AND {name} = ?" for name in given), list(given.values())


def parse_subject_filter(subjects: str) -> MessageSelection:
    """Return what a filter of the log of sessions selects, such as `session.a.*.turn.submitted`."""
    _, *words = (*subjects.split(".", 3), ">", ">", ">")[:4]
    return MessageSelection(*(None if word in {"*", ">"} else word for word in words))


class ArchiveIndex:
    """The index in a folder, opened to be read; raises `Corrupt` where it is damaged."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / INDEX_FILE
        self._lock = Lock()
        address = f"{self._file.absolute().as_uri()}?mode=ro"
        try:
            self._open = sqlite3.connect(address, uri=True, check_same_thread=False)
        except sqlite3.Error as error:
            raise self._describe_damage(error) from error
        ((count, last),) = self._fetch("SELECT count(*), max(position) FROM messages")
        self.count: int = count
        """How many messages are archived."""
        self.last_position: int = last or 0
        """That of the last of them."""

    def close(self) -> None:
        """Close the file."""
        self._open.close()

    def _describe_damage(self, error: sqlite3.Error) -> Corrupt:
        return Corrupt(f"archive {self._file}", f"{error}: restore the archive from a backup")

    def _fetch(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        try:
            with self._lock, closing(self._open.execute(query, values)) as rows:
                return rows.fetchall()
        except sqlite3.Error as error:
            raise self._describe_damage(error) from error

    def has_message(self, position: int) -> bool:
        """Return whether the message at a position of the stream is archived."""
        found = self._fetch("SELECT 1 FROM messages WHERE position = ?", (position,))
        return bool(found)

    def list_lines(
        self, selection: MessageSelection, first: int, last: int | None, count: int
    ) -> list[IndexedLine]:
        """Return up to `count` lines by position, from one up to another, or without an end."""
        condition, values = selection.build_condition()
        end = "" if last is None else " AND position <= ?"
        query = f"{_LINES}{condition} AND position >= ?{end} ORDER BY position LIMIT ?"
        values += [first, count] if last is None else [first, last, count]
        return [IndexedLine(*row) for row in self._fetch(query, values)]

    def find_last_line(self, selection: MessageSelection) -> IndexedLine | None:
        """Return the line with the highest position, or None."""
        condition, values = selection.build_condition()
        found = self._fetch(f"{_LINES}{condition} ORDER BY position DESC LIMIT 1", values)
        return IndexedLine(*found[0]) if found else None

    def count_messages(self, selection: MessageSelection) -> int:
        """Return how many messages are archived."""
        condition, values = selection.build_condition()
        ((count,),) = self._fetch(f"SELECT count(*) {_SOURCE}{condition}", values)
        return int(count)

    def summarise(self) -> ArchiveSummary:
        """Return how much is archived."""
        ((sessions,),) = self._fetch("SELECT count(*) FROM sessions")
        ((size,),) = self._fetch("SELECT sum(length) FROM messages")
        return ArchiveSummary(sessions, self.count, size or 0)

    def list_subjects(self, selection: MessageSelection) -> list[str]:
        """Return their subjects."""
        condition, values = selection.build_condition()
        found = self._fetch(f"SELECT DISTINCT tenant, session, leaf {_SOURCE}{condition}", values)
        return [SESSION_HISTORY.build_subject(*row) for row in found]


def has_index(folder: Path) -> bool:
    """Return whether a folder is an archive."""
    return (folder / INDEX_FILE).exists()


class NextIndex:
    """The index with the sessions that are being moved; it replaces the index when they are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next = folder / NEXT_INDEX_FILE
        self._next.unlink(missing_ok=True)
        if has_index(folder):
            shutil.copyfile(folder / INDEX_FILE, self._next)
        self._open = sqlite3.connect(self._next)
        self._open.executescript(_SCHEMA)

    def add_session(self, tenant: str, session: str, lines: Sequence[ArchivedLine]) -> None:
        """Add the messages of a session, in place of those that it had."""
        owner = (tenant, session)
        self._open.execute("INSERT OR IGNORE INTO sessions (tenant, session) VALUES (?, ?)", owner)
        self._open.executemany(
            "INSERT OR REPLACE INTO messages VALUES"
            " (?, (SELECT id FROM sessions WHERE tenant = ? AND session = ?), ?, ?, ?, ?)",
            (
                (
                    each.raw.stream_sequence,
                    *owner,
                    each.raw.subject.split(".", 3)[3],
                    each.offset,
                    each.length,
                    each.checksum,
                )
                for each in lines
            ),
        )

    @staticmethod
    def replace_index(folder: Path) -> None:
        """Make it the index that readers open; done already where there is none."""
        file = folder / NEXT_INDEX_FILE
        if file.exists():
            file.replace(folder / INDEX_FILE)

    def finish(self) -> int:
        """Write the file, so that it outlives a power loss; return how many messages it has."""
        self._open.commit()
        ((count,),) = self._open.execute("SELECT count(*) FROM messages").fetchall()
        self._open.close()
        return int(count)
