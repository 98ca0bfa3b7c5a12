from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from turnlog.events.codec import EventBatch
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.ids import LIBRARY_STREAM
from turnlog.events.log.memory import MemoryLog
from turnlog.events.log.outcomes import AppendOutcome
from turnlog.events.log.ports import LogIdentity, RawEvent


class LibraryLog(Protocol):
    """The events of libraries.

    A family of a tenant's library, such as its segments, is one history like a session: chained,
    appended to by compare-and-set, and read without scanning.
    """

    async def get_identity(self, tenant: str) -> LogIdentity:
        """Return the identity of the stream that holds the tenant's library."""
        ...

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        """Append a batch by compare-and-set, all or nothing; see `EventLog.append_batch`."""
        ...

    async def read_last_event(self, tenant: str, family: str, *, leader: bool = False) -> RecordedEvent | None:
        """Return a family's last event, or None; only with `leader` is it never stale."""
        ...

    async def read_range(
        self, tenant: str, family: str, after: ChainHead | None, upto: RecordedEvent
    ) -> Sequence[RecordedEvent]:
        """Return the events after `after` up to and including `upto`; see `EventLog.read_range`."""
        ...

    def stream_raw_events(self, after: int, *, live: bool) -> AsyncGenerator[Sequence[RawEvent]]:
        """Yield all tenants' events after a stream sequence; see `EventLog`."""
        ...


@dataclass
class MemoryLibraryLog:
    """A library log in memory, on top of `MemoryLog`."""

    log: MemoryLog = field(default_factory=MemoryLog)

    async def get_identity(self, tenant: str) -> LogIdentity:
        """See `LibraryLog.get_identity`."""
        del tenant
        return LogIdentity(LIBRARY_STREAM, self.log.created)

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        """See `LibraryLog.append_batch`."""
        return await self.log.append_batch(batch)

    async def read_last_event(self, tenant: str, family: str, *, leader: bool = False) -> RecordedEvent | None:
        """See `LibraryLog.read_last_event`."""
        return await self.log.read_last_event(tenant, family, leader=leader)

    async def read_range(
        self, tenant: str, family: str, after: ChainHead | None, upto: RecordedEvent
    ) -> Sequence[RecordedEvent]:
        """See `LibraryLog.read_range`."""
        return await self.log.read_range(tenant, family, after, upto)

    def stream_raw_events(self, after: int, *, live: bool) -> AsyncGenerator[Sequence[RawEvent]]:
        """See `LibraryLog.stream_raw_events`."""
        return self.log.stream_raw_events(None, after, live=live)
