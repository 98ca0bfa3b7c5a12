"""A segment library in memory, with the real rules, events and folds."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.parts.house import BY, SteppingClock
from turnlog.events.codec import Command
from turnlog.events.log.library import LibraryLog, MemoryLibrary
from turnlog.events.log.memory import MemoryBlobs, MemoryLog
from turnlog.events.log.ports import Blobs
from turnlog.projections.library.authored import Authored
from turnlog.projections.library.commands import AddSegment, ImportSegments, LibraryCommand
from turnlog.projections.library.shelf import Shelf
from turnlog.services.runtime.segments import Segments
from turnlog.services.runtime.shelves import Shelved, Shelves
from turnlog.services.runtime.texts import TextReader

TENANT = "t"


@dataclass
class Library:
    """One process's view of a segment library."""

    log: LibraryLog = field(default_factory=MemoryLibrary)
    blobs: Blobs = field(default_factory=MemoryBlobs)
    clock: SteppingClock = field(default_factory=SteppingClock)
    tenant: str = TENANT
    name: str = "one"
    ids: int = 0

    def __post_init__(self) -> None:
        self.shelves = Shelves(self.log, self.blobs, self.clock, self.new_id, f"/test/{self.name}")
        texts = TextReader(MemoryLog(), self.blobs)
        self.segments = Segments(self.shelves, texts, patience=0.2)

    def new_id(self) -> str:
        """Return the next id of a counter."""
        self.ids += 1
        return f"{self.name}-{self.ids}"

    def beside(self, name: str) -> Library:
        """Build another process on the same log."""
        return Library(self.log, self.blobs, self.clock, self.tenant, name)

    async def act(self, command: LibraryCommand, key: Command | None = None) -> Shelved:
        """Handle a command."""
        return await self.shelves.act(self.tenant, command, BY, key)

    async def add(self, scope: str, content: str, ref: str | None = None, **more: object) -> int:
        """Add a segment and return its number."""
        authored = Authored(scope, content, ref, **more)  # type: ignore[arg-type]
        done = await self.act(AddSegment(authored))
        return done.carried.added[0]

    async def take_in(self, *rows: Authored) -> Shelved:
        """Import rows."""
        return await self.act(ImportSegments(rows))

    async def shelf(self) -> Shelf:
        """Load the current state of the library."""
        return await self.shelves.load(self.tenant)
