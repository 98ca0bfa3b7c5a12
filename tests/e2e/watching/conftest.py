"""A service with the shipped blueprints and a model with a price, for the tests of one file."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import AgentService, start_agent_service
from tests.services.gateway.gateway_service import RunningGateway


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AgentService]:
    async with start_agent_service(
        tmp_path_factory.mktemp("watched"), model="openai/gpt-4o"
    ) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stand(platform: AgentService) -> RunningGateway:
    """The gateway that the browser may send requests to."""
    return platform.gateway
