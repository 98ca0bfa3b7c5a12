from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from turnlog.events.codec import Batch
from turnlog.events.envelope import Head, Recorded
from turnlog.events.ids import ALL_LIBRARY, LIBRARY, library_subject
from turnlog.events.log.outcomes import Outcome
from turnlog.events.log.ports import Identity, Raw
from turnlog.events.nats import append, following, reading
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.streams import facts_of


@dataclass(frozen=True, slots=True)
class JetStreamLibrary:
    """The log of all tenants' libraries."""

    connection: Connection
    patience: float = 10.0
    """Seconds for which an append may be retried."""

    async def identity(self, tenant: str) -> Identity:
        """See `LibraryLog.get_identity`."""
        del tenant
        return Identity(LIBRARY, (await facts_of(self.connection, LIBRARY)).created)

    async def append(self, batch: Batch) -> Outcome:
        """See `LibraryLog.append_batch`."""
        return await append.append(self.connection, LIBRARY, batch, self.patience)

    async def last(self, tenant: str, family: str, *, leader: bool = False) -> Recorded | None:
        """See `LibraryLog.read_last_event`."""
        subjects = library_subject(tenant, family, ">")
        return await reading.last(self.connection, LIBRARY, subjects, leader=leader)

    async def between(
        self, tenant: str, family: str, after: Head | None, upto: Recorded
    ) -> Sequence[Recorded]:
        """See `LibraryLog.read_range`."""
        subjects = library_subject(tenant, family, ">")
        return await reading.between(self.connection, LIBRARY, subjects, after, upto)

    def follow(self, after: int, *, live: bool) -> AsyncGenerator[Sequence[Raw]]:
        """See `LibraryLog.stream_raw_events`."""
        return following.follow(self.connection, LIBRARY, ALL_LIBRARY, after, live=live)
