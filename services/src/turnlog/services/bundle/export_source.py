"""The source of an export: one session up to one of its events, read page by page.

The child sessions of a coordinator are sources of their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace

from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.store.ports import EventLog
from turnlog.projections.audit.verify.hash_chain import ChainKey
from turnlog.projections.session_views.withheld_events import RedactedTurns
from turnlog.services.audit.session_record import SessionRecordLoader
from turnlog.services.sessions.paged_events import (
    PagedEvent,
    UndecodablePagedEvent,
    read_event_pages,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSource:
    """A session to export, and where to read it."""

    log: EventLog
    library: EventLog
    """The log of the library, whose erasures reach prompts."""
    records: SessionRecordLoader
    key: ChainKey
    last_event: RecordedEvent | None
    """The last event to export, or None where it cannot be decoded."""
    requested_at: str
    """When the export was requested, RFC 3339."""
    redacted: RedactedTurns
    """The redactions that readers of the export are subject to."""

    async def open_child(self, session: str) -> ExportSource | None:
        """Return the source of a child session as it is now; None if it was never opened."""
        tenant, _ = self.key
        try:
            last = await self.log.read_last_event(tenant, session, leader=True)
            if unreadable := await self.log.find_unreadable_end(tenant, session):
                raise unreadable
        except Corrupt:
            return replace(self, key=(tenant, session), last_event=None)
        return replace(self, key=(tenant, session), last_event=last) if last else None

    def iterate_pages(self) -> AsyncGenerator[Sequence[PagedEvent]]:
        """Yield the events in pages of bounded size."""
        return read_event_pages(self.log, self.key, self.last_event)

    def format_event(self, event: PagedEvent) -> bytes:
        """Return an event as readers get it; one that cannot be decoded as it is stored."""
        if isinstance(event, UndecodablePagedEvent):
            return event.stored
        return self.redacted.format_for_reader(event)


def encode_line(event: PagedEvent) -> bytes:
    """Return the stored bytes as a line; stored events contain no line breaks."""
    return event.stored + b"\n"


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
