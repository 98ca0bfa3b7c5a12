from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from turnlog.events.codec import EventBatch
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.ids import (
    ALL_SESSION_SUBJECTS,
    SESSIONS_STREAM,
    build_session_subject,
    build_session_filter,
    find_session_stream,
)
from turnlog.events.log.outcomes import AppendOutcome
from turnlog.events.log.ports import LogIdentity, RawEvent
from turnlog.events.nats import append, finding, following, reading, watching
from turnlog.events.nats.connection import NatsConnection
from turnlog.events.nats.streams import fetch_stream_info


@dataclass(frozen=True, slots=True)
class JetStreamLog:
    """The log of all tenants' sessions."""

    connection: NatsConnection
    patience: float = 10.0
    """Seconds for which an append may be retried."""

    async def get_identity(self, tenant: str) -> LogIdentity:
        """See `EventLog.get_identity`; it asks the server each time."""
        stream = find_session_stream(tenant)
        return LogIdentity(stream, (await fetch_stream_info(self.connection, stream)).created)

    async def get_last_stream_sequence(self, tenant: str) -> int:
        """See `EventLog.get_last_stream_sequence`."""
        return (await fetch_stream_info(self.connection, find_session_stream(tenant))).last_sequence

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        """See `EventLog.append_batch`."""
        stream = find_session_stream(batch.tenant)
        return await append.append_batch(self.connection, stream, batch, self.patience)

    async def read_last_event(self, tenant: str, session: str, *, leader: bool = False) -> RecordedEvent | None:
        """See `EventLog.read_last_event`."""
        subjects = build_session_filter(tenant, session)
        return await reading.read_last_event(self.connection, find_session_stream(tenant), subjects, leader=leader)

    async def read_range(
        self, tenant: str, session: str, after: ChainHead | None, upto: RecordedEvent
    ) -> Sequence[RecordedEvent]:
        """See `EventLog.read_range`."""
        subjects = build_session_filter(tenant, session)
        return await reading.read_range(self.connection, find_session_stream(tenant), subjects, after, upto)

    async def read_next_events(
        self, tenant: str, session: str, after: ChainHead | None, count: int
    ) -> Sequence[RecordedEvent]:
        """See `EventLog.read_next_events`."""
        subjects = build_session_filter(tenant, session)
        return await reading.read_next_events(self.connection, find_session_stream(tenant), subjects, after, count)

    async def find_event(self, tenant: str, session: str, sequence: int, upto: RecordedEvent) -> RecordedEvent:
        """See `EventLog.find_event`."""
        subjects = build_session_filter(tenant, session)
        return await finding.find_event(self.connection, find_session_stream(tenant), subjects, sequence, upto)

    async def read_events_by_leaf(
        self, tenant: str, session: str, leaf: str, upto: ChainHead
    ) -> Sequence[RecordedEvent]:
        """See `EventLog.read_events_by_leaf`."""
        subject = build_session_subject(tenant, session, leaf)
        return await reading.read_events_by_subject(self.connection, find_session_stream(tenant), subject, upto)

    async def read_events_at(self, tenant: str, stream_sequences: Sequence[int]) -> Sequence[RecordedEvent]:
        """See `EventLog.read_events_at`."""
        return await reading.read_events_at(self.connection, find_session_stream(tenant), tenant, stream_sequences)

    def stream_raw_events(
        self, tenant: str | None, after: int, *, live: bool
    ) -> AsyncGenerator[Sequence[RawEvent]]:
        """See `EventLog.stream_raw_events`."""
        stream = SESSIONS_STREAM if tenant is None else find_session_stream(tenant)
        subjects = ALL_SESSION_SUBJECTS if tenant is None else build_session_filter(tenant)
        return following.stream_raw_events(self.connection, stream, subjects, after, live=live)

    def watch_session(self, tenant: str, session: str, after: int = 0) -> AsyncGenerator[RecordedEvent]:
        """See `EventLog.watch_session`."""
        subjects = build_session_filter(tenant, session)
        return watching.watch_session(self.connection, find_session_stream(tenant), subjects, after)
