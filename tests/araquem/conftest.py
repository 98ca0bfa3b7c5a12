"""Fixtures of this folder: a model provider and a question service, one of each per module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.araquem.bank import Bank, bank, town
from tests.parts.openai_server import OpenAIServer

pytest.register_assert_rewrite("tests.araquem.rows")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def a_bank(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Bank]:
    folder = tmp_path_factory.mktemp("town")
    async with town(folder, provider) as place, bank(place, provider) as running:
        yield running
