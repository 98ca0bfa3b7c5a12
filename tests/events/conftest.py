"""A store in memory and one on a real server, so that a test runs on both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio

from turnlog.events.archive.archive_index import NextIndex
from turnlog.events.archive.message_archive import MessageArchive
from turnlog.events.codec import EventBatch
from turnlog.events.envelope import RecordedEvent
from turnlog.events.jetstream.jetstream_client import JetStreamClient, JetStreamLog, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.store.memory_log import (
    MemoryBlobStore,
    MemoryLog,
    MemoryMediaStore,
    MemorySnapshotStore,
    MemoryTokenStream,
)
from turnlog.events.store.ports import (
    AppendOutcome,
    BatchAppended,
    BlobStore,
    EventLog,
    MediaStore,
    SnapshotStore,
    TokenStream,
)
from turnlog.services.archive.closed_sessions import ArchivePlan, SessionKey
from turnlog.services.archive.session_archiver import SessionArchiver
from turnlog.services.platform.nats_server import NatsConfig, NatsServer


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class ContractStore:
    """The log, blobs, media, snapshots and tokens that a contract test runs on."""

    log: EventLog
    blobs: BlobStore
    media: MediaStore
    snapshots: SnapshotStore
    tokens: TokenStream


@pytest_asyncio.fixture
async def own_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    # A server that a test may stop, kill and damage.
    async with await NatsServer.start(NatsConfig(data_dir=tmp_path / "nats")) as server:
        yield server


@pytest_asyncio.fixture
async def jetstream(nats_url: str) -> AsyncIterator[JetStreamClient]:
    async with open_client(nats_url, StreamOptions()) as jetstream:
        yield jetstream


class SeenArchiver(SessionArchiver):
    """Shows what it moves to who reads meanwhile; processes open an archive when they start."""

    async def finish_move(self) -> bool:
        NextIndex.replace_index(self.folder)
        object.__setattr__(self.connection, "archive", MessageArchive(self.folder))
        return await super().finish_move()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivingLog(JetStreamLog):
    """A log of which every third history that is appended to is moved into the archive then."""

    folder: Path
    appended: list[SessionKey] = field(default_factory=list[SessionKey])
    moving: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def append_batch(self, batch: EventBatch) -> AppendOutcome:
        async with self.moving:
            outcome = await super(ArchivingLog, self).append_batch(batch)
            if isinstance(outcome, BatchAppended):
                self.appended.append((batch.tenant, batch.session))
                if len(self.appended) % 3 == 1:
                    await self._move_session(self.appended[-1])
        return outcome

    async def read_last_event(
        self, tenant: str, session: str, *, leader: bool = False
    ) -> RecordedEvent | None:
        async with self.moving:
            return await super(ArchivingLog, self).read_last_event(tenant, session, leader=leader)

    async def _move_session(self, key: SessionKey) -> None:
        archiver = SeenArchiver(connection=self.connection, folder=self.folder)
        await archiver.move_sessions(ArchivePlan(sessions=[key], events=0, size=0))


@asynccontextmanager
async def open_archived_store(tmp_path: Path) -> AsyncGenerator[ContractStore]:
    NextIndex(tmp_path).finish()
    NextIndex.replace_index(tmp_path)
    async with (
        await NatsServer.start(NatsConfig(data_dir=tmp_path / "nats")) as server,
        open_client(server.url, StreamOptions(), archive=tmp_path) as on,
    ):
        log = ArchivingLog(connection=on.connection, feed=on.log.feed, folder=tmp_path)
        yield ContractStore(
            log=log, blobs=on.blobs, media=on.media, snapshots=on.snapshots, tokens=on.tokens
        )


ARCHIVED = pytest.param(
    "archived", marks=pytest.mark.slow("the stream is made anew behind every third append")
)


@pytest_asyncio.fixture(params=["memory", "jetstream", ARCHIVED])
async def store(
    request: pytest.FixtureRequest, nats_url: str, tmp_path: Path
) -> AsyncIterator[ContractStore]:
    if request.param == "archived":
        async with open_archived_store(tmp_path) as archived:
            yield archived
        return
    if request.param == "memory":
        yield ContractStore(
            log=MemoryLog(),
            blobs=MemoryBlobStore(),
            media=MemoryMediaStore(),
            snapshots=MemorySnapshotStore(),
            tokens=MemoryTokenStream(),
        )
        return
    async with open_client(nats_url, StreamOptions()) as on:
        yield ContractStore(
            log=on.log, blobs=on.blobs, media=on.media, snapshots=on.snapshots, tokens=on.tokens
        )
