from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.ids import SNAPSHOTS_STREAM, build_snapshot_subject
from turnlog.events.nats.answers import PublishAck, request_json
from turnlog.events.nats.connection import NatsConnection
from turnlog.events.nats.fetching import get_last_message
from turnlog.events.nats.sizes import check_message_size


@dataclass(frozen=True, slots=True)
class JetStreamSnapshotStore:
    """Snapshots of all sessions; the stream keeps only the latest message of each subject."""

    connection: NatsConnection

    async def put_snapshot(
        self, tenant: str, session: str, data: bytes, interval: int | None = None
    ) -> None:
        """See `SnapshotStore.put_snapshot`."""
        check_message_size(self.connection, "snapshot", len(data))
        await request_json(self.connection, build_snapshot_subject(tenant, session, interval), PublishAck, data)

    async def get_snapshot(self, tenant: str, session: str, interval: int | None = None) -> bytes | None:
        """See `SnapshotStore.get_snapshot`."""
        subject = build_snapshot_subject(tenant, session, interval)
        found = await get_last_message(self.connection, SNAPSHOTS_STREAM, subject)
        return found.payload if found else None
