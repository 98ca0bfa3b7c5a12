from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from turnlog.events.codec import Batch
from turnlog.events.envelope import Head, Recorded
from turnlog.events.ids import (
    ALL_SESSIONS,
    SESSIONS,
    session_subject,
    session_subjects,
    stream_of,
)
from turnlog.events.log.outcomes import Outcome
from turnlog.events.log.ports import Identity, Raw
from turnlog.events.nats import append, finding, following, reading, watching
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.streams import facts_of


@dataclass(frozen=True, slots=True)
class JetStreamLog:
    """The log of all tenants' sessions."""

    connection: Connection
    patience: float = 10.0
    """Seconds for which an append may be retried."""

    async def identity(self, tenant: str) -> Identity:
        """See `EventLog.get_identity`; it asks the server each time."""
        stream = stream_of(tenant)
        return Identity(stream, (await facts_of(self.connection, stream)).created)

    async def end(self, tenant: str) -> int:
        """See `EventLog.get_last_stream_sequence`."""
        return (await facts_of(self.connection, stream_of(tenant))).last

    async def append(self, batch: Batch) -> Outcome:
        """See `EventLog.append_batch`."""
        stream = stream_of(batch.tenant)
        return await append.append(self.connection, stream, batch, self.patience)

    async def last(self, tenant: str, session: str, *, leader: bool = False) -> Recorded | None:
        """See `EventLog.read_last_event`."""
        subjects = session_subjects(tenant, session)
        return await reading.last(self.connection, stream_of(tenant), subjects, leader=leader)

    async def between(
        self, tenant: str, session: str, after: Head | None, upto: Recorded
    ) -> Sequence[Recorded]:
        """See `EventLog.read_range`."""
        subjects = session_subjects(tenant, session)
        return await reading.between(self.connection, stream_of(tenant), subjects, after, upto)

    async def onward(
        self, tenant: str, session: str, after: Head | None, count: int
    ) -> Sequence[Recorded]:
        """See `EventLog.read_next_events`."""
        subjects = session_subjects(tenant, session)
        return await reading.onward(self.connection, stream_of(tenant), subjects, after, count)

    async def find(self, tenant: str, session: str, sequence: int, upto: Recorded) -> Recorded:
        """See `EventLog.find_event`."""
        subjects = session_subjects(tenant, session)
        return await finding.find(self.connection, stream_of(tenant), subjects, sequence, upto)

    async def all_under(
        self, tenant: str, session: str, leaf: str, upto: Head
    ) -> Sequence[Recorded]:
        """See `EventLog.read_events_by_leaf`."""
        subject = session_subject(tenant, session, leaf)
        return await reading.all_under(self.connection, stream_of(tenant), subject, upto)

    async def at(self, tenant: str, stream_sequences: Sequence[int]) -> Sequence[Recorded]:
        """See `EventLog.read_events_at`."""
        return await reading.at(self.connection, stream_of(tenant), tenant, stream_sequences)

    def follow(
        self, tenant: str | None, after: int, *, live: bool
    ) -> AsyncGenerator[Sequence[Raw]]:
        """See `EventLog.stream_raw_events`."""
        stream = SESSIONS if tenant is None else stream_of(tenant)
        subjects = ALL_SESSIONS if tenant is None else session_subjects(tenant)
        return following.follow(self.connection, stream, subjects, after, live=live)

    def watch(self, tenant: str, session: str, after: int = 0) -> AsyncGenerator[Recorded]:
        """See `EventLog.watch_session`."""
        subjects = session_subjects(tenant, session)
        return watching.watch(self.connection, stream_of(tenant), subjects, after)
