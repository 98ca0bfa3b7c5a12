"""One gateway per test, on a log in memory and on a real nats-server."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.services.gateway.gateway_service import (
    LogBackend,
    MemoryBackend,
    RunningGateway,
    open_backend,
    start_service,
)
from tests.support.sessions.reproduction_checks import MEMORY_LOGS

# That the log in memory does what the real one does is what the contract of logs shows; what is
# built on it runs on both with FAULTS=all.
LOGS = ("memory", "nats") if os.environ.get("FAULTS") == "all" else ("nats",)


@pytest.fixture(params=LOGS)
def log_url(request: pytest.FixtureRequest) -> str | None:
    """The URL of the log; None for one in memory."""
    return request.getfixturevalue("nats_url") if request.param == "nats" else None


@pytest_asyncio.fixture
async def backend(log_url: str | None) -> AsyncIterator[LogBackend]:
    async with open_backend(log_url) as log:
        yield log


@pytest_asyncio.fixture
async def stand(
    backend: LogBackend, fresh_tenant: str, tmp_path: Path
) -> AsyncIterator[RunningGateway]:
    """A gateway with a projector and a worker."""
    if isinstance(backend, MemoryBackend):
        MEMORY_LOGS.register_log(backend.log, backend.blobs)
    async with start_service(backend, fresh_tenant, tmp_path) as running:
        yield running


@pytest_asyncio.fixture
async def idle(
    backend: LogBackend, fresh_tenant: str, tmp_path: Path
) -> AsyncIterator[RunningGateway]:
    """The same without a worker: submitted turns stay open."""
    async with start_service(backend, fresh_tenant, tmp_path, working=False) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bare(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    """One gateway per module on a log in memory, for requests that are refused before the log."""
    folder = tmp_path_factory.mktemp("bare")
    async with start_service(MemoryBackend(), "bare", folder, working=False) as running:
        yield running
