"""Fixtures of this folder: a model provider and a game service, one of each per module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.segment_budgets.game_service import GameService, start_game_service
from tests.support.servers.openai_server import OpenAIServer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def coast(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GameService]:
    async with start_game_service(tmp_path_factory.mktemp("table"), provider) as made:
        yield made
