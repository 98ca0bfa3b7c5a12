"""The parts every process is put together from: one connection, and all that stands on it."""

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
    """What stands on a process's connection."""

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
        """Make this process's sessions."""
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
        """Make this process's view of the library."""
        return Shelves(self.library, self.blobs, now, new_id, f"/turnlog/{self.role}")

    def gathering(self, texts: TextReader) -> Gathering:
        """Make what gives calls of this process their inputs and segments."""
        return Gathering(self.log, texts, Segments(self.shelves(), texts))


@asynccontextmanager
async def connected(
    settings: Process, role: str, on_closed: Callable[[], None]
) -> AsyncGenerator[Parts]:
    """Connect, provision, and take everything down again when left.

    `on_closed` hears of a connection that is gone for good; the process should end then.
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
