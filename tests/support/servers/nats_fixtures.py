"""One nats-server for all tests of a pytest process.

A test that stops its server starts its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from turnlog.services.platform.nats_server import NatsConfig, NatsServer


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def nats_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsServer]:
    async with await NatsServer.start(
        NatsConfig(data_dir=tmp_path_factory.mktemp("nats"))
    ) as server:
        yield server


@pytest.fixture
def nats_url(nats_server: NatsServer) -> str:
    return nats_server.url
