"""The library's log on JetStream: the port `LibraryLog`, put together from the session log's parts.

It differs from the log of sessions in its stream and its subjects and in nothing else.
"""

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
    """The libraries of all tenants."""

    connection: Connection
    patience: float = 10.0
    """Seconds in which an append may be tried again."""

    async def identity(self, tenant: str) -> Identity:
        """See `LibraryLog.identity`."""
        del tenant
        return Identity(LIBRARY, (await facts_of(self.connection, LIBRARY)).created)

    async def append(self, batch: Batch) -> Outcome:
        """See `LibraryLog.append`."""
        return await append.append(self.connection, LIBRARY, batch, self.patience)

    async def last(self, tenant: str, family: str, *, leader: bool = False) -> Recorded | None:
        """See `LibraryLog.last`."""
        subjects = library_subject(tenant, family, ">")
        return await reading.last(self.connection, LIBRARY, subjects, leader=leader)

    async def between(
        self, tenant: str, family: str, after: Head | None, upto: Recorded
    ) -> Sequence[Recorded]:
        """See `LibraryLog.between`."""
        subjects = library_subject(tenant, family, ">")
        return await reading.between(self.connection, LIBRARY, subjects, after, upto)

    def follow(self, after: int, *, live: bool) -> AsyncGenerator[Sequence[Raw]]:
        """See `LibraryLog.follow`."""
        return following.follow(self.connection, LIBRARY, ALL_LIBRARY, after, live=live)
