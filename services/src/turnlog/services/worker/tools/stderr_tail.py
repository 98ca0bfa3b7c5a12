"""The end of what a tool server's program wrote to stderr, for people who ask why it failed.

The worker reads the pipe as it is filled, so that no program waits for it, and keeps the end only.
A program serves many sessions, so that its lines may repeat the prompts of any of them. Therefore
an event gets what was written while its own request ran, and nothing if others ran meanwhile; the
worker's log gets all that is kept.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable
from typing import Final, TextIO

from turnlog.projections.blueprint.storable_json import cut_text
from turnlog.services.platform.secret_masking import replace_secrets

MAX_LINES: Final = 10
"""Maximum number of lines that are recorded and logged."""

MAX_LINE_CHARACTERS: Final = 300
"""Maximum length of a line in characters; the rest is cut off."""

MAX_BYTES: Final = 2_000
"""Maximum size of all lines together in bytes; the first lines are left out."""

_MAX_MASKED_CHARACTERS: Final = 2_000

_KEPT_BYTES: Final = 16_384

_CHUNK_BYTES: Final = 65_536

_MAX_READS: Final = 16
"""Reads after which a pipe is empty, unless its program goes on writing."""

_ESCAPE_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)"
)


class StderrTail:
    """A pipe for the stderr of one program, and the end of what came through it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipe, writing_end = os.pipe()
        os.set_blocking(self._pipe, False)
        self.file: TextIO = os.fdopen(writing_end, "w")
        """What the program gets as its stderr; close it once the program has it."""
        self._kept = bytearray()
        self._written = 0
        self._loop.add_reader(self._pipe, self._read_chunk)

    def find_end(self) -> int:
        """Return how many bytes were written so far."""
        self._read_pipe()
        return self._written

    def read_text(self, since: int = 0) -> str:
        """Return what is kept of the text after a position, whole lines only at its beginning."""
        self._read_pipe()
        first_kept = self._written - len(self._kept)
        kept = bytes(self._kept[max(since - first_kept, 0) :])
        if since < first_kept:
            kept = kept.partition(b"\n")[2]
        return kept.decode(errors="replace")

    def close(self) -> None:
        """Read what is left and close the pipe; the text stays readable."""
        self._read_pipe()
        self.file.close()
        if self._pipe >= 0:
            self._loop.remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = -1

    def _read_pipe(self) -> None:
        for _ in range(_MAX_READS):
            if self._pipe < 0 or not self._read_chunk():
                return

    def _read_chunk(self) -> bool:
        """Read what is in the pipe; return False if there is nothing."""
        try:
            chunk = os.read(self._pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._loop.remove_reader(self._pipe)
            return False
        self._written += len(chunk)
        self._kept = (self._kept + chunk)[-_KEPT_BYTES:]
        return True


def format_last_lines(text: str, secrets: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the last lines of a text, bounded, without control characters and secrets."""
    lines = _ESCAPE_SEQUENCE.sub("", text).expandtabs(2).splitlines()
    printable = ("".join(filter(str.isprintable, line)).rstrip() for line in lines)
    values, last, size = tuple(secrets), list[str](), 0
    for line in [line for line in printable if line][: -MAX_LINES - 1 : -1]:
        shown = cut_text(replace_secrets(_cut_at_blank(line), values), MAX_LINE_CHARACTERS)
        size += len(shown.encode()) + 1
        if size > MAX_BYTES:
            break
        last.insert(0, shown)
    return tuple(last)


def _cut_at_blank(line: str) -> str:
    """Return the beginning of a long line, without a word of which only a part would be left."""
    if len(line) <= _MAX_MASKED_CHARACTERS:
        return line
    return f"{line[:_MAX_MASKED_CHARACTERS].rpartition(' ')[0]}..."
