"""One attacked service for the tests of a file, and a fresh client history for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.faults.attacked_service import AttackedService, run_attacked_service
from tests.faults.clients.attack_client import AttackClient
from tests.faults.clients.client_history import ClientHistory


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def attacked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AttackedService]:
    async with run_attacked_service(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture
def history() -> ClientHistory:
    return ClientHistory()


@pytest.fixture
def client(attacked: AttackedService, history: ClientHistory) -> AttackClient:
    return AttackClient(http=attacked.service.http, history=history)
