"""Reading and editing the segment library: lists from rows, one segment and edits from its log.

An edit is an event: under its idempotency key it is applied once, and the next call of any session
uses it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt
from turnlog.projections.library.library_decisions import build_unknown_segment
from turnlog.projections.library.segment_inputs import AddSegment
from turnlog.projections.library.segment_library import (
    SegmentVersion,
)
from turnlog.projections.store.engine import ReadModelStore
from turnlog.projections.store.read.segment_queries import SegmentRowFilter
from turnlog.projections.store.read.segment_queries import list_segments as list_segment_rows
from turnlog.projections.store.write.segment_projection import read_segments_sequence
from turnlog.services.api.segment_payloads import (
    AddSegmentRequest,
    EditSegmentRequest,
    ImportSegmentsRequest,
    SegmentChangeResult,
    SegmentImportResult,
    SegmentPage,
    SegmentRow,
    SegmentVersionView,
    SegmentView,
)
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.command_handling.callers import Caller
from turnlog.services.command_handling.row_waits import RowWaits
from turnlog.services.segments.segment_service import SegmentChange, SegmentService


@dataclass(frozen=True, slots=True)
class SegmentUseCases:
    """Reads and edits the segments of tenants."""

    segment_service: SegmentService
    store: ReadModelStore
    row_waits: RowWaits
    texts: TextReader

    async def list_segments(
        self,
        tenant: str,
        sought: SegmentRowFilter,
        *,
        limit: int,
        after: int = 0,
        min_sequence: int | None = None,
    ) -> SegmentPage:
        """List segments by number, with one row for each variant."""
        if min_sequence is not None:
            head = (await self.segment_service.load_state(tenant)).sequence
            look = partial(read_segments_sequence, self.store, tenant)
            await self.row_waits.wait_for_rows(look, min_sequence, head)
        async with self.store.open_reader() as connection:
            rows, more = await list_segment_rows(
                connection, tenant, sought, after=after, limit=limit
            )
        segments = tuple(SegmentRow.model_validate(row) for row in rows)
        return SegmentPage(segments=segments, next=rows[-1].id if more else None)

    async def load_segment(self, tenant: str, segment: int) -> SegmentView:
        """Return a segment with all its versions."""
        library = await self.segment_service.load_state(tenant)
        found = library.segments.get(segment)
        if found is None:
            raise build_unknown_segment()
        versions = [await self._create_version_view(tenant, each) for each in found.versions]
        return SegmentView(
            id=found.id,
            sequence=library.sequence,
            scope=found.scope,
            ref=found.ref,
            locale=found.locale,
            active=found.is_active,
            variants={name: version.version for name, version in found.active_versions.items()},
            versions=tuple(versions),
        )

    async def _create_version_view(
        self, tenant: str, version: SegmentVersion
    ) -> SegmentVersionView:
        text = version.text
        return SegmentVersionView(
            version=version.version,
            variant=version.variant,
            content=await self._load_text(tenant, text.digest),
            digest=text.digest,
            characters=text.characters,
            tier=text.tier,
            type=text.type,
            priority=text.priority,
            edited_at=version.stamp.at,
            edited_by=version.stamp.actor,
        )

    async def _load_text(self, tenant: str, digest: Digest) -> str | None:
        try:
            return (await self.texts.read_blobs(tenant, (digest,)))[digest]
        except Corrupt:
            return None  # The text was erased; the other fields remain available.

    async def add_segment(self, caller: Caller, request: AddSegmentRequest) -> SegmentChangeResult:
        """Add a segment and assign its number."""
        done = await self.segment_service.handle(
            caller.tenant,
            AddSegment(request.convert_to_input()),
            caller.metadata,
            caller.command,
        )
        (number,) = done.changes.added
        return _create_change_result(done, number)

    async def edit_segment(
        self, caller: Caller, segment: int, request: EditSegmentRequest
    ) -> SegmentChangeResult:
        """Change a segment's text or properties, or activate or deactivate it."""
        done = await self.segment_service.handle(
            caller.tenant, request.create_command(segment), caller.metadata, caller.command
        )
        return _create_change_result(done, segment)

    async def import_segments(
        self, caller: Caller, request: ImportSegmentsRequest
    ) -> SegmentImportResult:
        """Import all these segments or none of them; a repeated import changes nothing."""
        outcome = await self.segment_service.handle(
            caller.tenant, request.create_command(), caller.metadata, caller.command
        )
        changes = outcome.changes
        return SegmentImportResult(
            added=changes.added,
            edited=changes.edited,
            rows=len(request.segments),
            sequence=changes.sequence,
        )


def _create_change_result(done: SegmentChange, number: int) -> SegmentChangeResult:
    sequence = done.changes.sequence
    version = done.state.segments[number].get_version_at(sequence)
    return SegmentChangeResult(segment=number, version=version, sequence=sequence)
