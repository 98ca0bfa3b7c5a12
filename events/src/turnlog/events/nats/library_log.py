from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from turnlog.events.codec import EventBatch
from turnlog.events.envelope import ChainHead, RecordedEvent
from turnlog.events.ids import ALL_LIBRARY_SUBJECTS, LIBRARY_STREAM, build_library_subject
from turnlog.events.log.outcomes import AppendOutcome
from turnlog.events.log.ports import LogIdentity, RawEvent
from turnlog.events.nats import append, following, reading
from turnlog.events.nats.connection import NatsConnection
from turnlog.events.nats.streams import fetch_stream_info


@dataclass(frozen=True, slots=True)
class JetStreamLibraryLog:
    """The log of all tenants' libraries."""

    connection: NatsConnection
    patience: float = 10.0
    """Seconds for which an append may be retried."""

    async def get_identity(self, tenant: str) -> LogIdentity:
        """See `LibraryLog.get_identity`."""
        del tenant
        return LogIdentity(LIBRARY_STREAM, (await fetch_stream_info(self.connection, LIBRARY_STREAM)).created)

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        """See `LibraryLog.append_batch`."""
        return await append.append_batch(self.connection, LIBRARY_STREAM, batch, self.patience)

    async def read_last_event(self, tenant: str, family: str, *, leader: bool = False) -> RecordedEvent | None:
        """See `LibraryLog.read_last_event`."""
        subjects = build_library_subject(tenant, family, ">")
        return await reading.read_last_event(self.connection, LIBRARY_STREAM, subjects, leader=leader)

    async def read_range(
        self, tenant: str, family: str, after: ChainHead | None, upto: RecordedEvent
    ) -> Sequence[RecordedEvent]:
        """See `LibraryLog.read_range`."""
        subjects = build_library_subject(tenant, family, ">")
        return await reading.read_range(self.connection, LIBRARY_STREAM, subjects, after, upto)

    def stream_raw_events(self, after: int, *, live: bool) -> AsyncGenerator[Sequence[RawEvent]]:
        """See `LibraryLog.stream_raw_events`."""
        return following.stream_raw_events(self.connection, LIBRARY_STREAM, ALL_LIBRARY_SUBJECTS, after, live=live)
