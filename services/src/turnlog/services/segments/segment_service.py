"""The segment service: load a tenant's segments, decide a command, append its events.

Every event of a segment library is appended here. The state is cached between uses, and one read of
the library's last event (about 0.3 ms) shows whether it is still the latest. So an acknowledged
edit is visible to the next reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from turnlog.events import codec
from turnlog.events.model.segment_events import SEGMENT_FAMILY
from turnlog.events.registry import LibraryEvent
from turnlog.events.store.ports import BlobStore, EventLog
from turnlog.events.subjects import LIBRARY_HISTORY
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
from turnlog.services.command_handling.idempotent_commands import (
    CommandMetadata,
    IdempotentCommandHandler,
)
from turnlog.services.command_handling.tenant_states import TenantStates
from turnlog.services.command_handling.text_storage import store_texts
from turnlog.services.platform.clock import Clock, CreateId


@dataclass(frozen=True, slots=True)
class LibraryCommandOutcome:
    """The result of a command: the library's state, and the segments that it changed."""

    library_state: SegmentLibrary
    changes: LibraryCommandResult


@dataclass
class SegmentService:
    """The segments of all tenants, for one process."""

    log: EventLog
    blobs: BlobStore
    clock: Clock
    create_id: CreateId
    source: str
    """The `source` of appended events."""
    _states: TenantStates[SegmentLibrary, LibraryCommandRecord] = field(init=False)
    _handler: IdempotentCommandHandler[SegmentLibrary, LibraryCommandRecord] = field(init=False)

    def __post_init__(self) -> None:
        self._states = TenantStates(SegmentLibrary, fold)
        self._handler = IdempotentCommandHandler(
            self.log,
            LIBRARY_HISTORY,
            self._states,
            self.clock,
            self.create_id,
            self.source,
            log_name="library",
        )

    def get_cached_state(self, tenant: str) -> SegmentLibrary | None:
        """Return the cached state of a tenant's segments without reading the log."""
        return self._states.get_state(tenant, SEGMENT_FAMILY)

    async def load_state(self, tenant: str) -> SegmentLibrary:
        """Return the state of a tenant's segments; see `IdempotentCommandHandler.load_state`."""
        state = await self._handler.load_state(tenant, SEGMENT_FAMILY)
        return state or SegmentLibrary(tenant)

    async def load_state_at(self, tenant: str, at_time: str) -> SegmentLibrary:
        """Return a tenant's segments as they were at an RFC 3339 time; the state is not cached."""
        last = await self.log.read_last_event(tenant, SEGMENT_FAMILY)
        events = await self.log.read_range(tenant, SEGMENT_FAMILY, None, last) if last else ()
        return fold(
            [each for each in events if each.envelope.time <= at_time], SegmentLibrary(tenant)
        )

    async def handle(
        self,
        tenant: str,
        command: LibraryCommand,
        metadata: CommandMetadata,
        key: codec.CommandRef | None = None,
    ) -> LibraryCommandOutcome:
        """Carry out a command; see `IdempotentCommandHandler.handle`."""

        async def decide_events(state: SegmentLibrary | None) -> Sequence[LibraryEvent]:
            events = decide(state or SegmentLibrary(tenant), command)
            if events:
                await store_texts(self.blobs, tenant, _list_texts(command))
            return events

        handled = await self._handler.handle(tenant, SEGMENT_FAMILY, decide_events, metadata, key)
        library = handled.state or SegmentLibrary(tenant)
        if handled.record is not None:
            return LibraryCommandOutcome(library, handled.record.result)
        if not handled.events:
            return LibraryCommandOutcome(library, LibraryCommandResult(library.sequence))
        return LibraryCommandOutcome(library, build_command_result(handled.events))


def _list_texts(command: LibraryCommand) -> Iterable[str]:
    match command:
        case AddSegment(segment=segment):
            return (segment.content,)
        case EditSegment(content=content):
            return () if content is None else (content,)
        case ImportSegments(segments=rows):
            return (row.content for row in rows)
        case _ as never:
            assert_never(never)
