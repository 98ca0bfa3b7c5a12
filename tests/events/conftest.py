"""A store in memory and one on a real server, so that a test runs on both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from turnlog.events.jetstream.jetstream_client import JetStreamClient, open_client
from turnlog.events.jetstream.stream_setup import StreamOptions
from turnlog.events.store.memory_log import (
    MemoryBlobStore,
    MemoryLog,
    MemoryMediaStore,
    MemorySnapshotStore,
    MemoryTokenStream,
)
from turnlog.events.store.ports import (
    BlobStore,
    EventLog,
    MediaStore,
    SnapshotStore,
    TokenStream,
)
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


@pytest_asyncio.fixture(params=["memory", "jetstream"])
async def store(request: pytest.FixtureRequest, nats_url: str) -> AsyncIterator[ContractStore]:
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
