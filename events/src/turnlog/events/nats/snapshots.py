from __future__ import annotations

from dataclasses import dataclass

from turnlog.events.ids import SNAPSHOTS, snapshot_subject
from turnlog.events.nats.answers import Ack, ask
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.fetching import last_of
from turnlog.events.nats.sizes import check_size


@dataclass(frozen=True, slots=True)
class JetStreamSnapshots:
    """Snapshots of all sessions; the stream keeps only the latest message of each subject."""

    connection: Connection

    async def put(
        self, tenant: str, session: str, data: bytes, waypoint: int | None = None
    ) -> None:
        """See `SnapshotStore.put_snapshot`."""
        check_size(self.connection, "snapshot", len(data))
        await ask(self.connection, snapshot_subject(tenant, session, waypoint), Ack, data)

    async def get(self, tenant: str, session: str, waypoint: int | None = None) -> bytes | None:
        """See `SnapshotStore.get_snapshot`."""
        subject = snapshot_subject(tenant, session, waypoint)
        found = await last_of(self.connection, SNAPSHOTS, subject)
        return found.payload if found else None
