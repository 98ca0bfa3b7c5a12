"""Fixtures of this folder: a model provider and a question service, one of each per module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.resolvers.question_service import (
    QuestionService,
    prepare_question_host,
    start_question_service,
)
from tests.support.servers.openai_server import OpenAIServer

pytest.register_assert_rewrite("tests.resolvers.requirements")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def a_bank(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[QuestionService]:
    folder = tmp_path_factory.mktemp("town")
    async with (
        prepare_question_host(folder, provider) as place,
        start_question_service(place, provider) as running,
    ):
        yield running
