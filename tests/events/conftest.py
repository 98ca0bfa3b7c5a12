"""A store in memory and one on a real server, so that a test runs on both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from turnlog.events.log.memory import MemoryBlobs, MemoryLog, MemorySnapshots, MemoryTokens
from turnlog.events.log.ports import Blobs, Log, Snapshots, TokenStream
from turnlog.events.nats.layout import Terms
from turnlog.events.nats.opening import JetStream, opened
from turnlog.services.runtime.nats_config import NatsConfig
from turnlog.services.runtime.nats_server import NatsServer


@dataclass(frozen=True, slots=True)
class Store:
    """The log, blobs, snapshots and tokens that a contract test runs on."""

    log: Log
    blobs: Blobs
    snapshots: Snapshots
    tokens: TokenStream


@pytest_asyncio.fixture
async def own_server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    # A server that a test may stop, kill and damage.
    async with await NatsServer.start(NatsConfig(tmp_path / "nats")) as server:
        yield server


@pytest_asyncio.fixture
async def jetstream(nats_url: str) -> AsyncIterator[JetStream]:
    async with opened(nats_url, Terms()) as jetstream:
        yield jetstream


@pytest_asyncio.fixture(params=["memory", "jetstream"])
async def store(request: pytest.FixtureRequest, nats_url: str) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield Store(MemoryLog(), MemoryBlobs(), MemorySnapshots(), MemoryTokens())
        return
    async with opened(nats_url, Terms()) as on:
        yield Store(on.log, on.blobs, on.snapshots, on.tokens)
