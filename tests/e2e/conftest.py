"""Shared services: one process for all tests, or several for those of a file."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.browser import Browser, run_browser
from tests.services.gateway.gateway_service import MemoryBackend, RunningGateway, start_service
from tests.support.processes.process_host import ProcessHost, run_process_host
from tests.support.processes.separate_roles import SeparateRoles, build_settings, run_separate_roles
from tests.support.processes.turnlog_up import TurnlogUp, run_turnlog_up
from tests.support.servers.openai_server import OpenAIServer
from tests.support.servers.postgres_server import PostgresServer
from tests.support.sessions.reproduction_checks import find_unreproducible_calls


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def provider() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def fresh_provider(provider: OpenAIServer) -> None:
    """Let no file get the answers that another one has queued and not used."""
    provider.clear_exchanges()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def up(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TurnlogUp]:
    """The whole service in one process, started once for the tests of a file that do not end it.

    Its start takes what it takes to idle for ten seconds, which it would do to the end of the run.
    """
    async with (
        run_process_host(tmp_path_factory.mktemp("up"), build_settings(provider)) as host,
        run_turnlog_up(host) as running,
    ):
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def host(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ProcessHost]:
    """A host whose processes a test starts and ends itself."""
    async with run_process_host(
        tmp_path_factory.mktemp("host"), build_settings(provider)
    ) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def sealed_up(host: ProcessHost) -> AsyncIterator[TurnlogUp]:
    """The whole service in one process, which seals; its keyring is in its data directory."""
    # A picture has 85 tokens with this model, and 8,500 with that of other tests.
    variables = {"TURNLOG_SEALING": "on", "TURNLOG_MODEL": "openai/heron"}
    async with run_turnlog_up(host, variables=variables) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def separate(
    provider: OpenAIServer,
    postgres_server: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[SeparateRoles]:
    """Gateway, projector, NATS and Postgres; tests that need workers start them."""
    async with run_separate_roles(
        tmp_path_factory.mktemp("roles"), provider, postgres_server
    ) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stand(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    """A gateway and a worker with a fake model, for the browser tests of a file."""
    backend = MemoryBackend()
    async with start_service(backend, "seen", tmp_path_factory.mktemp("stand")) as running:
        yield running
    assert find_unreproducible_calls(backend.log.stored, backend.blobs.blobs) == []


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    async with run_browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def browser(chromium: Browser, stand: RunningGateway) -> AsyncIterator[Browser]:
    """A browser whose page must show no error and send requests to the gateway only."""
    await chromium.send_command("Page.navigate", url="about:blank")
    chromium.events.clear()
    yield chromium
    assert chromium.list_complaints() == []
    # An input of times has the browser's own picture of a calendar, which is a `data:` address
    requested = chromium.list_requested_urls()
    urls = [url for url in requested if not url.startswith(("about:blank", "data:"))]
    assert [url for url in urls if not url.startswith(stand.address)] == []
