"""Blobs on a stream of their own: one message a text, under its digest, never replaced.

A text that is there already is not stored again, which the server itself sees to, so putting is
safe to repeat. What comes back is digested before it is believed.
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
"""The server's code for a subject that holds a message already."""


@dataclass(frozen=True, slots=True)
class JetStreamBlobs:
    """Blobs of all tenants."""

    connection: Connection

    async def put(self, tenant: str, data: bytes) -> Digest:
        """See `Blobs.put`."""
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
        """See `Blobs.get`."""
        subject = blob_subject(tenant, digest)
        found = await last_of(self.connection, BLOBS, subject)
        if found is None:
            found = await last_at_leader(self.connection, BLOBS, subject)
        if found is None or digest_of(found.payload) != digest:
            raise Corrupt(f"blob {digest}", "gone, or its bytes have changed")
        return found.payload
