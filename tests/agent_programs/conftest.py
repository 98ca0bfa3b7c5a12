"""One agent service for a module of tests, reset for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import AgentService, start_agent_service


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AgentService]:
    async with start_agent_service(tmp_path_factory.mktemp("platform")) as platform:
        yield platform


@pytest_asyncio.fixture(loop_scope="module")
async def platform(running: AgentService) -> AsyncIterator[AgentService]:
    fresh = running.reset_for_test()
    yield fresh
    assert await fresh.find_unreproducible_calls() == []
