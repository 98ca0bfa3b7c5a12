"""One attacked service for the tests of a file, and a fresh client history for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.faults.client import Client
from tests.faults.history import History
from tests.faults.site import Site, site


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def attacked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def client(attacked: Site, history: History) -> Client:
    return Client(attacked.service.http, history)
