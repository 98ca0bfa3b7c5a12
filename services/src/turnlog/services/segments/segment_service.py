"""The segment service: load a tenant's segments, decide a command, append its events.

Every event of a segment library is appended here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from turnlog.events import codec
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.projections.library.library_decisions import decide
from turnlog.projections.library.segment_inputs import (
    AddSegment,
    EditSegment,
    ImportSegments,
    LibraryCommand,
)
from turnlog.projections.library.segment_library import (
    LibraryCommandRecord,
    LibraryCommandResult,
    SegmentLibrary,
    build_command_result,
    fold,
)
from turnlog.services.command_handling.idempotent_commands import CommandMetadata
from turnlog.services.command_handling.tenant_histories import (
    LibraryParts,
    TenantChange,
    TenantHistory,
    TenantStates,
    build_change,
)

SegmentChange = TenantChange[SegmentLibrary, LibraryCommandResult]
"""The result of a command: the library's state after it, and the segments that it changed."""


@dataclass
class SegmentService:
    """The segments of all tenants, for one process."""

    parts: LibraryParts
    history: TenantHistory[SegmentLibrary, LibraryCommandRecord] = field(init=False)

    def __post_init__(self) -> None:
        states = TenantStates[SegmentLibrary, LibraryCommandRecord](_create_library, fold)
        self.history = TenantHistory(
            parts=self.parts,
            family=SEGMENT_FAMILY,
            create=_create_library,
            states=states,
            has_words=True,
        )

    def get_cached_state(self, tenant: str) -> SegmentLibrary | None:
        """Return the cached state of a tenant's segments without reading the log."""
        return self.history.get_cached_state(tenant)

    async def load_state(self, tenant: str) -> SegmentLibrary:
        """Return the state of a tenant's segments; see `TenantHistory.load_state`."""
        return await self.history.load_state(tenant)

    async def load_state_at(self, tenant: str, at_time: str) -> SegmentLibrary:
        """Return a tenant's segments as they were at an RFC 3339 time; the state is not cached."""
        log = self.parts.log
        last = await log.read_last_event(tenant, SEGMENT_FAMILY)
        events = await log.read_range(tenant, SEGMENT_FAMILY, None, last) if last else ()
        return fold(
            [each for each in events if each.envelope.time <= at_time],
            SegmentLibrary(tenant=tenant),
        )

    async def handle(
        self,
        tenant: str,
        command: LibraryCommand,
        metadata: CommandMetadata,
        key: codec.CommandRef | None = None,
    ) -> SegmentChange:
        """Carry out a command; see `TenantHistory.handle`."""
        outcome = await self.history.handle(
            tenant,
            lambda library: decide(library, command),
            metadata,
            key,
            texts=_list_texts(command),
        )
        return build_change(outcome, build_command_result, LibraryCommandResult)


def _list_texts(command: LibraryCommand) -> Sequence[str]:
    match command:
        case AddSegment(segment=segment):
            return (segment.content,)
        case EditSegment(content=content):
            return () if content is None else (content,)
        case ImportSegments(segments=rows):
            return tuple(row.content for row in rows)
        case _ as never:
            assert_never(never)


def _create_library(tenant: str) -> SegmentLibrary:
    return SegmentLibrary(tenant=tenant)
