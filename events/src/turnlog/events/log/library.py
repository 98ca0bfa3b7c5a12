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
    """The events of libraries.

    A family of a tenant's library, such as its segments, is one history like a session: chained,
    appended to by compare-and-set, and read without scanning.
    """

    async def identity(self, tenant: str) -> Identity:
        """Return the identity of the stream that holds the tenant's library."""
        ...

    async def append(self, batch: Batch) -> Outcome:
        """Append a batch by compare-and-set, all or nothing; see `EventLog.append_batch`."""
        ...

    async def last(self, tenant: str, family: str, *, leader: bool = False) -> Recorded | None:
        """Return a family's last event, or None; only with `leader` is it never stale."""
        ...

    async def between(
        self, tenant: str, family: str, after: Head | None, upto: Recorded
    ) -> Sequence[Recorded]:
        """Return the events after `after` up to and including `upto`; see `EventLog.read_range`."""
        ...

    def follow(self, after: int, *, live: bool) -> AsyncGenerator[Sequence[Raw]]:
        """Yield all tenants' events after a stream sequence; see `EventLog`."""
        ...


@dataclass
class MemoryLibrary:
    """A library log in memory, on top of `MemoryLog`."""

    log: MemoryLog = field(default_factory=MemoryLog)

    async def identity(self, tenant: str) -> Identity:
        """See `LibraryLog.get_identity`."""
        del tenant
        return Identity(LIBRARY, self.log.created)

    async def append(self, batch: Batch) -> Outcome:
        """See `LibraryLog.append_batch`."""
        return await self.log.append(batch)

    async def last(self, tenant: str, family: str, *, leader: bool = False) -> Recorded | None:
        """See `LibraryLog.read_last_event`."""
        return await self.log.last(tenant, family, leader=leader)

    async def between(
        self, tenant: str, family: str, after: Head | None, upto: Recorded
    ) -> Sequence[Recorded]:
        """See `LibraryLog.read_range`."""
        return await self.log.between(tenant, family, after, upto)

    def follow(self, after: int, *, live: bool) -> AsyncGenerator[Sequence[Raw]]:
        """See `LibraryLog.stream_raw_events`."""
        return self.log.follow(None, after, live=live)
