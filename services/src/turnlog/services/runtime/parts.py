"""The composition root that all processes share: one connection and the components on it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from turnlog.events.nats.blobs import JetStreamBlobs
from turnlog.events.nats.connection import Connection
from turnlog.events.nats.jetstream_log import JetStreamLog
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.library_log import JetStreamLibrary
from turnlog.events.nats.opening import opened
from turnlog.events.nats.snapshots import JetStreamSnapshots
from turnlog.events.nats.tokens import JetStreamTokens
from turnlog.services.runtime.blueprints import BlueprintStore
from turnlog.services.runtime.clock import new_id, now
from turnlog.services.runtime.durability import Durability, durability_of
from turnlog.services.runtime.gathering import Gathering
from turnlog.services.runtime.segments import Segments
from turnlog.services.runtime.sessions import OlderCommands, Sessions
from turnlog.services.runtime.settings import Process
from turnlog.services.runtime.shelves import Shelves
from turnlog.services.runtime.snapshots import CheckedSnapshots
from turnlog.services.runtime.telemetry import Tracing, tracing
from turnlog.services.runtime.texts import TextReader


@dataclass(frozen=True, slots=True)
class Parts:
    """The components that a process builds on its connection."""

    role: str
    connection: Connection
    log: JetStreamLog
    library: JetStreamLibrary
    blobs: JetStreamBlobs
    snapshots: JetStreamSnapshots
    tokens: JetStreamTokens
    blueprints: BlueprintStore
    durability: Durability
    tracing: Tracing

    def sessions(self, older: OlderCommands) -> Sessions:
        """Create this process's command handler."""
        return Sessions(
            self.log,
            CheckedSnapshots(self.log, self.snapshots),
            TextReader(self.log, self.blobs),
            older,
            now,
            new_id,
            f"/turnlog/{self.role}",
        )

    def shelves(self) -> Shelves:
        """Create this process's segment service."""
        return Shelves(self.library, self.blobs, now, new_id, f"/turnlog/{self.role}")

    def gathering(self, texts: TextReader) -> Gathering:
        """Create the loader of turn inputs and segments."""
        return Gathering(self.log, texts, Segments(self.shelves(), texts))


@asynccontextmanager
async def connected(
    settings: Process, role: str, on_closed: Callable[[], None]
) -> AsyncGenerator[Parts]:
    """Connect and provision; close everything when the body ends.

    `on_closed` is called when the connection is closed permanently; the process should then end.
    """
    durability = await durability_of(settings.durability, settings.replicas, settings.nats_monitor)
    url, terms = settings.nats_url.get_secret_value(), Terms(replicas=settings.replicas)
    traces = tracing(role, settings.otlp_endpoint)
    try:
        async with opened(url, terms, name=f"turnlog-{role}", on_closed=on_closed) as on:
            yield Parts(
                role=role,
                connection=on.connection,
                log=on.log,
                library=on.library,
                blobs=on.blobs,
                snapshots=on.snapshots,
                tokens=on.tokens,
                blueprints=BlueprintStore(on.blobs),
                durability=durability,
                tracing=traces,
            )
    finally:
        traces.shut_down()
