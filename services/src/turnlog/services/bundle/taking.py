"""The source of an export: one session up to one of its events, read page by page."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from turnlog.events.envelope import RecordedEvent
from turnlog.events.log.ports import EventLog
from turnlog.projections.audit.chain import ChainKey
from turnlog.services.runtime.pages import PagedEvent, read_event_pages
from turnlog.services.runtime.records import SessionRecordLoader


@dataclass(frozen=True, slots=True)
class ExportSource:
    """A session to export, and where to read it."""

    log: EventLog
    records: SessionRecordLoader
    key: ChainKey
    last_event: RecordedEvent | None
    """The last event to export, or None where it cannot be decoded."""
    requested_at: str
    """When the export was requested, RFC 3339."""

    def iterate_pages(self) -> AsyncGenerator[Sequence[PagedEvent]]:
        """Yield the events in pages of bounded size."""
        return read_event_pages(self.log, self.key, self.last_event)


def encode_line(told: PagedEvent) -> bytes:
    """Return the stored bytes as a line; stored events contain no line breaks."""
    return told.stored + b"\n"
