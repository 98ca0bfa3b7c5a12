"""Knowledge in memory, with the real rules, events and folds."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.sessions.session_harness import TESTER, SteppingClock
from turnlog.events.codec import CommandRef
from turnlog.events.store.memory_log import MemoryBlobStore, MemoryLog
from turnlog.events.store.ports import BlobStore, EventLog
from turnlog.events.subjects import LIBRARY_HISTORY
from turnlog.projections.knowledge.knowledge_inputs import (
    EntryInput,
    KnowledgeCommand,
    PutEntries,
    RemoveEntries,
)
from turnlog.projections.knowledge.knowledge_state import KnowledgeState
from turnlog.services.command_handling.tenant_histories import LibraryParts
from turnlog.services.knowledge.knowledge_service import KnowledgeChange, KnowledgeService


@dataclass(kw_only=True)
class KnowledgeHarness:
    """One process's view of the knowledge of a tenant."""

    log: EventLog = field(default_factory=lambda: MemoryLog(kind=LIBRARY_HISTORY))
    blobs: BlobStore = field(default_factory=MemoryBlobStore)
    clock: SteppingClock = field(default_factory=SteppingClock)
    tenant: str = "t"
    ids: int = 0

    def __post_init__(self) -> None:
        self.service = KnowledgeService(
            LibraryParts(
                log=self.log,
                blobs=self.blobs,
                clock=self.clock,
                create_id=self.create_id,
                source="/test",
            )
        )

    def create_id(self) -> str:
        """Return the next id of a counter."""
        self.ids += 1
        return f"{self.tenant}-{self.ids}"

    async def handle_command(
        self, command: KnowledgeCommand, key: CommandRef | None = None
    ) -> KnowledgeChange:
        """Carry out a command."""
        return await self.service.handle(self.tenant, command, TESTER, key)

    async def put_entries(self, collection: str, *entries: EntryInput) -> KnowledgeChange:
        """Add or edit entries."""
        return await self.handle_command(PutEntries(collection, entries))

    async def remove_entries(self, collection: str, *ids: str) -> KnowledgeChange:
        """Remove entries, or the collection if none is named."""
        return await self.handle_command(RemoveEntries(collection, ids or None))

    async def load_state(self) -> KnowledgeState:
        """Return the state as it is now."""
        return await self.service.load_state(self.tenant)
