"""The segment projector: keeps the rows of library segments up to date.

A library is small, so every start folds it from its first event. This verifies that rows and stream
belong together, and rows that are behind are rewritten in one transaction. Like the session
projector, it waits for unreachable components, and ends if the stream does not match its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

import structlog

from turnlog.events.content import Digest, compute_digest
from turnlog.events.store.ports import BlobStore, EventLog, LogIdentity, RawEvent
from turnlog.projections.library.tenant_libraries import LibraryChange, TenantLibraries
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.read_your_writes import ProjectionSignal
from turnlog.projections.store.schema.schema_migration import prepare_schema
from turnlog.projections.store.write.segment_projection import (
    SEGMENTS_VERSION,
    SegmentsPosition,
    SegmentTexts,
    begin_segments_build,
    read_segments_position,
    write_segments,
)
from turnlog.services.integrity.rollback_confirmation import CONFIRM_SECONDS
from turnlog.services.projector.library_reads import load_library_text, verify_library_position
from turnlog.services.projector.projector_outages import OutageLog, run_rounds

_log = structlog.get_logger("turnlog.projector")


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentProjector:
    """Keeps the segment rows up to date."""

    log: EventLog
    blobs: BlobStore
    store: ReadModelStore
    tenant: str
    """Any tenant of the stream."""
    signal: ProjectionSignal
    """Notified after every commit, for readers in this process."""
    patience: float = CONFIRM_SECONDS
    """Seconds for which a log must be too short to count as rolled back."""

    async def run(self) -> None:
        """Keep the rows up to date; ends by cancellation, or with `Corrupt`."""
        await run_rounds(self._run_round)

    async def rebuild_segments(self) -> int:
        """Rewrite the rows in one transaction; return the stream sequence they are folded to."""
        await prepare_schema(self.store)
        return (await self._rewrite_rows(await self._fold_stream())).position

    async def _run_round(self, _outage: OutageLog) -> None:
        """Fold until another process moves the position."""
        await prepare_schema(self.store)
        async with self.store.open_reader() as connection:
            before = await read_segments_position(connection)
        if before:
            await verify_library_position(
                self.log, self.tenant, before, SEGMENTS_VERSION, what="rows", seconds=self.patience
            )
        past = await self._fold_stream()
        is_current = before and (before.version, before.position) == (
            SEGMENTS_VERSION,
            past.position,
        )
        at = before if before and is_current else await self._rewrite_rows(past)
        async with aclosing(self.log.stream_raw_events(None, at.position, live=True)) as bulks:
            async for raws in bulks:
                moved = await self._fold_batch(at, past.stock, raws)
                if moved is None:
                    return
                at = moved

    async def _fold_stream(self) -> _StreamFold:
        past = _StreamFold(await self.log.get_identity(self.tenant))
        async with aclosing(self.log.stream_raw_events(None, 0, live=False)) as bulks:
            async for raws in bulks:
                _report_stopped(past.stock.apply_events(raws))
                past.position, past.hash = raws[-1].stream_sequence, compute_digest(raws[-1].stored)
        return past

    async def _rewrite_rows(self, past: _StreamFold) -> SegmentsPosition:
        everything = past.stock.list_all()
        texts = await self._load_texts(everything)
        async with self.store.open_writer() as connection:
            begun = await begin_segments_build(connection, past.log)
            after = replace(begun, position=past.position, hash=past.hash)
            await write_segments(
                connection=connection, before=begun, after=after, changed=everything, texts=texts
            )
        self.signal.notify_readers()
        return after

    async def _fold_batch(
        self, at: SegmentsPosition, stock: TenantLibraries, raws: Sequence[RawEvent]
    ) -> SegmentsPosition | None:
        changed = _report_stopped(stock.apply_events(raws))
        texts = await self._load_texts(changed)
        last = raws[-1]
        after = replace(at, position=last.stream_sequence, hash=compute_digest(last.stored))
        async with self.store.open_writer() as connection:
            kept = await write_segments(
                connection=connection, before=at, after=after, changed=changed, texts=texts
            )
        self.signal.notify_readers()
        return after if kept else None

    async def _load_texts(self, changed: Iterable[LibraryChange]) -> SegmentTexts:
        places = {
            (each.library.tenant, version.text.digest)
            for each in changed
            for segment in each.segments
            for version in segment.latest_versions.values()
            if not version.is_erased
        }
        return {
            place: text
            for place in places
            if (text := await load_library_text(self.blobs, *place, missing="segment-text-missing"))
            is not None
        }


@dataclass(slots=True)
class _StreamFold:
    """The library stream, folded up to a position."""

    log: LogIdentity
    stock: TenantLibraries = field(default_factory=TenantLibraries)
    position: int = 0
    hash: Digest | None = None


def _report_stopped(changed: tuple[LibraryChange, ...]) -> tuple[LibraryChange, ...]:
    """Log an error for each tenant whose segments can no longer be folded."""
    for each in changed:
        if each.stop_reason:
            _log.error("library-stopped", tenant=each.library.tenant, reason=each.stop_reason)
    return changed
