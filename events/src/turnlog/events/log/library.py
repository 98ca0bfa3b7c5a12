"""What the rest of the house asks of the log of libraries.

A family of a tenant's library, such as its segments, is one history: chained, appended to by
compare-and-set and read without searching, just as a session is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from turnlog.events.codec import Batch
from turnlog.events.envelope import Head, Recorded
from turnlog.events.ids import LIBRARY
from turnlog.events.log.memory import MemoryLog
from turnlog.events.log.outcomes import Outcome
from turnlog.events.log.ports import Identity, Raw


class LibraryLog(Protocol):
    """Libraries and their events."""

    async def identity(self, tenant: str) -> Identity:
        """Tell which stream holds the tenant's library."""
        ...

    async def append(self, batch: Batch) -> Outcome:
        """Add a batch by compare-and-set, all or nothing; see `Log.append`."""
        ...

    async def last(self, tenant: str, family: str, *, leader: bool = False) -> Recorded | None:
        """Give a family's last event, or none. Only `leader` is never stale."""
        ...

    async def between(
        self, tenant: str, family: str, after: Head | None, upto: Recorded
    ) -> Sequence[Recorded]:
        """Give the events behind `after` up to and including `upto`; see `Log.between`."""
        ...

    def follow(self, after: int, *, live: bool) -> AsyncGenerator[Sequence[Raw]]:
        """Give everything of all tenants behind a stream sequence; see `Log.follow`."""
        ...


@dataclass
class MemoryLibrary:
    """A library's log in memory, as `MemoryLog` is one of sessions."""

    log: MemoryLog = field(default_factory=MemoryLog)

    async def identity(self, tenant: str) -> Identity:
        """See `LibraryLog.identity`."""
        del tenant
        return Identity(LIBRARY, self.log.created)

    async def append(self, batch: Batch) -> Outcome:
        """See `LibraryLog.append`."""
        return await self.log.append(batch)

    async def last(self, tenant: str, family: str, *, leader: bool = False) -> Recorded | None:
        """See `LibraryLog.last`."""
        return await self.log.last(tenant, family, leader=leader)

    async def between(
        self, tenant: str, family: str, after: Head | None, upto: Recorded
    ) -> Sequence[Recorded]:
        """See `LibraryLog.between`."""
        return await self.log.between(tenant, family, after, upto)

    def follow(self, after: int, *, live: bool) -> AsyncGenerator[Sequence[Raw]]:
        """See `LibraryLog.follow`."""
        return self.log.follow(None, after, live=live)
