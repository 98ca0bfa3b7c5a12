"""The source of an export: one session up to one of its events, read page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from turnlog.events.envelope import Recorded
from turnlog.events.log.ports import Log
from turnlog.projections.audit.chain import Key
from turnlog.services.runtime.pages import Told, pages
from turnlog.services.runtime.records import Records


@dataclass(frozen=True, slots=True)
class Taken:
    """A session to export, and where to read it."""

    log: Log
    records: Records
    key: Key
    last: Recorded | None
    """The last event to export, or None where it cannot be decoded."""
    at: str
    """When the export was requested, RFC 3339."""

    def pages(self) -> AsyncGenerator[Sequence[Told]]:
        """Yield the events in pages of bounded size."""
        return pages(self.log, self.key, self.last)


def one_line(told: Told) -> bytes:
    """Return the stored bytes as a line; stored events contain no line breaks."""
    return told.stored + b"\n"
