"""The form of an archived session: one packed file of NDJSON, a stored message a line.

A line has the position of the message in the stream, its subject, and the event with exactly the
bytes that were stored, so digests and chain stay what they were, and any reader of NDJSON can use
the file without Turnlog.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from turnlog.events.errors import Corrupt
from turnlog.events.store.ports import RawEvent

_LINE_START: Final = re.compile(
    rb'\{"position":([0-9]{1,20}),"subject":"([A-Za-z0-9_.-]+)","event":'
)

_LINE_END: Final = b"}\n"

PACKING_LEVEL: Final = 6
"""What zlib takes by itself: events become a fifth or less."""


class ArchivedLine(NamedTuple):
    """Where a message is in the file of its session."""

    raw: RawEvent
    offset: int
    """Bytes before its line, in the unpacked file."""
    length: int
    """Bytes of its line, with the end of it."""
    checksum: int
    """CRC-32 of the line, which tells a damaged file from a broken event."""


def find_session_file(folder: Path, tenant: str, session: str) -> Path:
    """Return the file of an archived session; a folder gets one in 256 of a tenant's sessions."""
    shelf = hashlib.sha256(session.encode()).hexdigest()[:2]
    return folder / "sessions" / tenant / shelf / f"{session}.ndjson.gz"


def pack_session(raws: Sequence[RawEvent]) -> tuple[bytes, Sequence[ArchivedLine]]:
    """Return the file of a session with these messages, and where each of them is in it."""
    found, text = list[ArchivedLine](), bytearray()
    for raw in raws:
        line = encode_line(raw)
        found.append(ArchivedLine(raw, len(text), len(line), crc32(line)))
        text += line
    return gzip.compress(text, PACKING_LEVEL, mtime=0), found


def read_session_file(file: Path) -> bytes:
    """Return what the file of a session unpacks to; raises `Corrupt`."""
    try:
        return gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise describe_damage(file, getattr(error, "strerror", None) or str(error)) from error


def is_line_safe(raw: RawEvent) -> bool:
    """Return whether a message can be a line and be read back: no event has an end of line."""
    return b"\n" not in raw.stored


def encode_line(raw: RawEvent) -> bytes:
    """Return a message as a line."""
    head = f'{{"position":{raw.stream_sequence},"subject":"{raw.subject}","event":'
    return head.encode() + raw.stored + _LINE_END


def decode_line(file: Path, line: bytes) -> RawEvent:
    """Return the message of a line; raises `Corrupt` for what `encode_line` did not write."""
    found = _LINE_START.match(line)
    if found is None or not line.endswith(_LINE_END):
        raise describe_damage(file, "a line of it is no archived event")
    position, subject = found.groups()
    return RawEvent(subject.decode(), int(position), line[found.end() : -len(_LINE_END)])


def describe_damage(file: Path, detail: str) -> Corrupt:
    """Return the error for a file that is not as it was written."""
    return Corrupt(f"archive {file}", f"{detail}: restore the archive from a backup")
