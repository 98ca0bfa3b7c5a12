"""The JetStream client: implementations of all ports of the event store on one connection.

Blobs are stored as one message per text, under its digest, and never replaced. The server itself
rejects a text that exists, so storing can be repeated. Bytes read back are checked against their
digest. The library log differs from the session log only in its stream and subjects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nats.js.api import Header

from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Corrupt
from turnlog.events.ids import BLOBS_STREAM, build_blob_subject
from turnlog.events.nats.answers import PublishAck, JsApiError, request_json
from turnlog.events.nats.connection import NatsConnection
from turnlog.events.nats.fetching import get_last_message_at_leader, get_last_message
from turnlog.events.nats.sizes import check_message_size

BLOB_EXISTS_CODE: Final = 10071
"""The server's error code for a subject that already holds a message."""


@dataclass(frozen=True, slots=True)
class JetStreamBlobStore:
    """Blobs of all tenants."""

    connection: NatsConnection

    async def put_blob(self, tenant: str, data: bytes) -> Digest:
        """See `BlobStore.put_blob`."""
        digest = compute_digest(data)
        check_message_size(self.connection, "blob", len(data))
        first = {Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: "0"}
        try:
            await request_json(self.connection, build_blob_subject(tenant, digest), PublishAck, data, first)
        except JsApiError as denied:
            if denied.code != BLOB_EXISTS_CODE:
                raise
        return digest

    async def get_blob(self, tenant: str, digest: Digest) -> bytes:
        """See `BlobStore.get_blob`."""
        subject = build_blob_subject(tenant, digest)
        found = await get_last_message(self.connection, BLOBS_STREAM, subject)
        if found is None:
            found = await get_last_message_at_leader(self.connection, BLOBS_STREAM, subject)
        if found is None or compute_digest(found.payload) != digest:
            raise Corrupt(f"blob {digest}", "gone, or its bytes have changed")
        return found.payload
