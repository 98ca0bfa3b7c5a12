"""What the tests of a file share: a provider, and a service in one process or in several."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.everything import Up, everything
from tests.e2e.roles import Roles, roles, telling
from tests.parts.openai_server import OpenAIServer
from tests.parts.postgres import PostgresServer
from tests.parts.processes import Machine, machine


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Machine]:
    async with machine(tmp_path_factory.mktemp("up"), telling(provider)) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def up(host: Machine) -> AsyncIterator[Up]:
    async with everything(host) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def separate(
    provider: OpenAIServer,
    postgres_server: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Roles]:
    """Gateway, projector, NATS and Postgres; workers are started by whoever needs them."""
    async with roles(tmp_path_factory.mktemp("roles"), provider, postgres_server) as running:
        yield running
