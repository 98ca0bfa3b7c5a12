"""The JetStream client: implementations of all ports of the event store on one connection.

Blobs are stored as one message per text, under its digest, and never replaced. The server itself
rejects a text that exists, so storing can be repeated. Bytes read back are checked against their
digest. The library log differs from the session log only in its stream and subjects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nats.js.api import Header

from turnlog.events.content import Digest, digest_of
from turnlog.events.errors import Corrupt
from turnlog.events.ids import BLOBS, blob_subject
from turnlog.events.nats.answers import Ack, Denied, ask
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.fetching import last_at_leader, last_of
from turnlog.events.nats.sizes import check_size

THERE: Final = 10071
"""The server's error code for a subject that already holds a message."""


@dataclass(frozen=True, slots=True)
class JetStreamBlobs:
    """Blobs of all tenants."""

    connection: Connection

    async def put(self, tenant: str, data: bytes) -> Digest:
        """See `BlobStore.put_blob`."""
        digest = digest_of(data)
        check_size(self.connection, "blob", len(data))
        first = {Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: "0"}
        try:
            await ask(self.connection, blob_subject(tenant, digest), Ack, data, first)
        except Denied as denied:
            if denied.code != THERE:
                raise
        return digest

    async def get(self, tenant: str, digest: Digest) -> bytes:
        """See `BlobStore.get_blob`."""
        subject = blob_subject(tenant, digest)
        found = await last_of(self.connection, BLOBS, subject)
        if found is None:
            found = await last_at_leader(self.connection, BLOBS, subject)
        if found is None or digest_of(found.payload) != digest:
            raise Corrupt(f"blob {digest}", "gone, or its bytes have changed")
        return found.payload
