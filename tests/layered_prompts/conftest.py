"""Fixtures of this folder: a model provider and a tutor service, one of each per module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.layered_prompts.tutor_service import (
    TutorService,
    prepare_tutor_host,
    start_tutor_service,
)
from tests.support.servers.openai_server import OpenAIServer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[OpenAIServer]:
    async with OpenAIServer() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tutor_service(
    provider: OpenAIServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TutorService]:
    folder = tmp_path_factory.mktemp("school")
    async with (
        prepare_tutor_host(folder, provider) as host,
        start_tutor_service(host, provider) as classroom,
    ):
        yield classroom
