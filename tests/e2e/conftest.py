"""Shared services: one process for all tests, or several for those of a file."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.browser import Browser, browsing
from tests.parts.everything import Up, everything
from tests.parts.openai_server import OpenAIServer
from tests.parts.postgres import PostgresServer
from tests.parts.processes import Machine, machine
from tests.parts.reproduction import unproven
from tests.parts.roles import Roles, roles, telling
from tests.services.gateway.stand import InMemory, Stand, standing


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def provider() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def up(provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Up]:
    """The whole service in one process, started once for all tests that do not end it."""
    async with (
        machine(tmp_path_factory.mktemp("up"), telling(provider)) as host,
        everything(host) as running,
    ):
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def host(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Machine]:
    """A host whose processes a test starts and ends itself."""
    async with machine(tmp_path_factory.mktemp("host"), telling(provider)) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def separate(
    provider: OpenAIServer,
    postgres_server: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Roles]:
    """Gateway, projector, NATS and Postgres; tests that need workers start them."""
    async with roles(tmp_path_factory.mktemp("roles"), provider, postgres_server) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stand(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stand]:
    """A gateway and a worker with a fake model, for the browser tests of a file."""
    held = InMemory()
    async with standing(held, "seen", tmp_path_factory.mktemp("stand")) as running:
        yield running
    assert unproven(held.log.stored, held.blobs.blobs) == []


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with browsing(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def browser(chromium: Browser, stand: Stand) -> AsyncIterator[Browser]:
    """A browser whose page must show no error and send requests to the gateway only."""
    await chromium.ask("Page.navigate", url="about:blank")
    chromium.seen.clear()
    yield chromium
    assert chromium.complaints() == []
    asked = [url for url in chromium.asked_for() if url != "about:blank"]
    assert [url for url in asked if not url.startswith(stand.address)] == []
