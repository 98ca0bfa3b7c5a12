from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from turnlog.events.nats.blobs import JetStreamBlobs
from turnlog.events.nats.connection import Connection, connected
from turnlog.events.nats.jetstream_log import JetStreamLog
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.library_log import JetStreamLibrary
from turnlog.events.nats.provision import provision, provision_tokens
from turnlog.events.nats.snapshots import JetStreamSnapshots
from turnlog.events.nats.tokens import JetStreamTokens


@dataclass(frozen=True, slots=True)
class JetStream:
    """The logs and stores of a process, on one connection."""

    connection: Connection
    log: JetStreamLog
    library: JetStreamLibrary
    blobs: JetStreamBlobs
    snapshots: JetStreamSnapshots
    tokens: JetStreamTokens


def jetstream_on(connection: Connection) -> JetStream:
    """Return a client on a connection; nothing is created or checked."""
    return JetStream(
        connection,
        JetStreamLog(connection),
        JetStreamLibrary(connection),
        JetStreamBlobs(connection),
        JetStreamSnapshots(connection),
        JetStreamTokens(connection),
    )


@asynccontextmanager
async def opened(
    url: str,
    terms: Terms,
    *,
    name: str = "turnlog",
    on_closed: Callable[[], None] | None = None,
) -> AsyncGenerator[JetStream]:
    """Connect, create and verify the streams, and create TOKENS again after each reconnect."""
    again = partial(provision_tokens, terms=terms)
    async with connected(url, name=name, on_reconnect=again, on_closed=on_closed) as connection:
        await provision(connection, terms)
        yield jetstream_on(connection)
