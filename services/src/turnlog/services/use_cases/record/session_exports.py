"""Exports of a session: all its events in a format, streamed while the log is read.

Long sessions need little memory. A corrupt session is exported as it is stored, because an auditor
needs it most.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

from turnlog.events.codec import format_rfc3339
from turnlog.events.envelope import RecordedEvent
from turnlog.events.errors import Corrupt
from turnlog.events.store.ports import EventLog
from turnlog.projections.session_views.withheld_events import RedactedTurns
from turnlog.services.audit.redactions import RedactionCache, load_session_redactions
from turnlog.services.audit.session_record import SessionRecordLoader
from turnlog.services.bundle.bundle_zip import export_zip
from turnlog.services.bundle.export_source import ExportSource
from turnlog.services.sessions.command_handler import CommandHandler
from turnlog.services.use_cases.record.table_exports import (
    export_markdown,
    export_parquet,
    import_pyarrow,
)

ExportFormat = Literal["ndjson", "chat", "parquet", "bundle"]

ExportWriter = Callable[[ExportSource], AsyncGenerator[bytes]]


async def export_lines(source: ExportSource) -> AsyncGenerator[bytes]:
    """Yield the events as lines."""
    async for page in source.iterate_pages():
        yield b"".join(source.format_event(each) + b"\n" for each in page)


EXPORT_WRITERS: Final[Mapping[ExportFormat, ExportWriter]] = {
    "ndjson": export_lines,
    "chat": export_markdown,
    "parquet": export_parquet,
    "bundle": export_zip,
}


@dataclass(frozen=True, slots=True)
class SessionExport:
    """An export that is read in pieces."""

    pieces: AsyncGenerator[bytes]
    sequence: int | None
    """The last sequence; None where the session's last event cannot be read."""


@dataclass(frozen=True, slots=True)
class SessionExports:
    """Exports sessions."""

    command_handler: CommandHandler
    redactions: RedactionCache
    library: EventLog
    """The log of the library."""

    async def export_session(
        self, tenant: str, session: str, export_format: ExportFormat, *, stored: bool = False
    ) -> SessionExport:
        """Return all events of a session in a format.

        With `stored`, texts that are withheld from other readers are in it; a bundle always has
        all events as they are stored, since its recipient checks them.
        """
        if export_format == "parquet":
            import_pyarrow()
        last = await self._load_last_event(tenant, session)
        source = ExportSource(
            log=self.command_handler.log,
            library=self.library,
            records=SessionRecordLoader(self.command_handler),
            key=(tenant, session),
            last_event=last,
            requested_at=format_rfc3339(self.command_handler.clock()),
            redacted=RedactedTurns() if stored else await self._load_redactions(tenant, last),
        )
        pieces = EXPORT_WRITERS[export_format](source)
        return SessionExport(pieces, last.sequence if last else None)

    async def _load_redactions(self, tenant: str, last: RecordedEvent | None) -> RedactedTurns:
        """Return the redactions of the session; of all sessions where it cannot be read."""
        if last is not None:
            with suppress(Corrupt):
                return await load_session_redactions(self.command_handler.log, last)
        return await self.redactions.load_redactions(self.command_handler.log, tenant)

    async def _load_last_event(self, tenant: str, session: str) -> RecordedEvent | None:
        """Return the session's last event, or None when it cannot be read."""
        try:
            return await self.command_handler.load_whole_end(tenant, session)
        except Corrupt:
            return None
