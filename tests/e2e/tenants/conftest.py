"""The pair of tenants, started once for the tests of a file."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.e2e.tenants.tenant_pair import TenantPair, run_tenant_pair
from tests.support.servers.postgres_server import PostgresServer


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pair(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenantPair]:
    async with run_tenant_pair(tmp_path_factory.mktemp("pair"), postgres_server) as running:
        yield running
