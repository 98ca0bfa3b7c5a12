"""A segment library in memory, with the real rules, events and folds."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.sessions.session_harness import TESTER, SteppingClock
from turnlog.events.codec import CommandRef
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog, MemoryMediaStore
from turnlog.events.store.ports import BlobStore, EventLog
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.library.segment_inputs import (
    AddSegment,
    ImportSegments,
    LibraryCommand,
    SegmentInput,
)
from turnlog.projections.library.segment_library import SegmentLibrary
from turnlog.services.caches.media_cache import MediaReader
from turnlog.services.caches.text_cache import TextReader
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.segments.segment_service import SegmentChange, SegmentService
from turnlog.services.sessions.prompt_inputs import SegmentFetcher

TENANT = "t"


@dataclass(repr=False, kw_only=True)
class SegmentHarness:
    """One process's view of a segment library."""

    log: EventLog = field(default_factory=lambda: MemoryLog(kind=LIBRARY_HISTORY))
    blobs: BlobStore = field(default_factory=MemoryBlobStore)
    clock: SteppingClock = field(default_factory=SteppingClock)
    tenant: str = TENANT
    name: str = "one"
    ids: int = 0

    def __post_init__(self) -> None:
        self.shelves = SegmentService(
            LibraryParts(
                log=self.log,
                blobs=self.blobs,
                clock=self.clock,
                create_id=self.create_id,
                source=f"/test/{self.name}",
            )
        )
        texts = TextReader(log=MemoryLog(), blobs=self.blobs, media=MediaReader(MemoryMediaStore()))
        self.segments = SegmentFetcher(self.shelves, texts, timeout=0.2)

    def create_id(self) -> str:
        """Return the next id of a counter."""
        self.ids += 1
        return f"{self.name}-{self.ids}"

    def build_second_process(self, name: str) -> SegmentHarness:
        """Build another process on the same log."""
        return SegmentHarness(
            log=self.log, blobs=self.blobs, clock=self.clock, tenant=self.tenant, name=name
        )

    async def handle_command(
        self, command: LibraryCommand, key: CommandRef | None = None
    ) -> SegmentChange:
        """Carry out a command."""
        return await self.shelves.handle(self.tenant, command, TESTER, key)

    async def add_segment(
        self, scope: str, content: str, ref: str | None = None, **more: object
    ) -> int:
        """Add a segment; gives its number."""
        authored = SegmentInput(scope=scope, content=content, ref=ref, **more)  # type: ignore[arg-type]
        done = await self.handle_command(AddSegment(authored))
        return done.changes.added[0]

    async def import_segments(self, *rows: SegmentInput) -> SegmentChange:
        """Import rows."""
        return await self.handle_command(ImportSegments(rows))

    async def load_library(self) -> SegmentLibrary:
        """Give the segments as they are now."""
        return await self.shelves.load_state(self.tenant)
