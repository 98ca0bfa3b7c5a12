from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from turnlog.events.nats.blobs import JetStreamBlobStore
from turnlog.events.nats.connection import NatsConnection, open_connection
from turnlog.events.nats.jetstream_log import JetStreamLog
from turnlog.events.nats.layout import StreamOptions
from turnlog.events.nats.library_log import JetStreamLibraryLog
from turnlog.events.nats.provision import provision_streams, provision_token_stream
from turnlog.events.nats.snapshots import JetStreamSnapshotStore
from turnlog.events.nats.tokens import JetStreamTokenStream


@dataclass(frozen=True, slots=True)
class JetStreamClient:
    """The logs and stores of a process, on one connection."""

    connection: NatsConnection
    log: JetStreamLog
    library: JetStreamLibraryLog
    blobs: JetStreamBlobStore
    snapshots: JetStreamSnapshotStore
    tokens: JetStreamTokenStream


def build_client(connection: NatsConnection) -> JetStreamClient:
    """Return a client on a connection; nothing is created or checked."""
    return JetStreamClient(
        connection,
        JetStreamLog(connection),
        JetStreamLibraryLog(connection),
        JetStreamBlobStore(connection),
        JetStreamSnapshotStore(connection),
        JetStreamTokenStream(connection),
    )


@asynccontextmanager
async def open_client(
    url: str,
    terms: StreamOptions,
    *,
    name: str = "turnlog",
    on_closed: Callable[[], None] | None = None,
) -> AsyncGenerator[JetStreamClient]:
    """Connect, create and verify the streams, and create TOKENS again after each reconnect."""
    again = partial(provision_token_stream, terms=terms)
    async with open_connection(url, name=name, on_reconnect=again, on_closed=on_closed) as connection:
        await provision_streams(connection, terms)
        yield build_client(connection)
