from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.platform.process_settings import ModelAdapter
from turnlog.services.worker.model.call_timeouts import CallTimeouts
from turnlog.services.worker.model.model_router import ModelRouter

KEY = "sk-test-3f9AAb27c1"

ADAPTED: tuple[tuple[ModelAdapter, str], ...] = (
    ("litellm", "openai/heron"),
    ("litellm", "hosted_vllm/heron"),
    ("direct", "openai/heron"),
)
"""A model that litellm reaches by the OpenAI client, by its own client, and one without litellm."""


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenAIServer]:
    """A provider that both OpenAI routes of litellm lead to, and the direct one."""
    async with OpenAIServer() as server:
        for provider in ("OPENAI", "HOSTED_VLLM"):
            monkeypatch.setenv(f"{provider}_API_BASE", server.url)
            monkeypatch.setenv(f"{provider}_API_KEY", KEY)
        yield server


@pytest.fixture(params=ADAPTED, ids=lambda each: f"{each[0]} {each[1].partition('/')[0]}")
def adapted(request: pytest.FixtureRequest) -> tuple[ModelAdapter, str]:
    """An adapter, and the name of a model that it calls: what holds for one holds for all."""
    adapter, name = request.param
    return adapter, name


@pytest.fixture
def name(adapted: tuple[ModelAdapter, str]) -> str:
    return adapted[1]


@pytest.fixture
def timeouts() -> CallTimeouts:
    # Longer than any test: what ends here ends for another reason.
    return CallTimeouts(connect=60, first_token=60, between_tokens=60, total=60)


@pytest.fixture
async def model(
    request: pytest.FixtureRequest, timeouts: CallTimeouts
) -> AsyncIterator[ModelRouter]:
    """The adapter of the test's `name`; litellm where it has none."""
    adapter: ModelAdapter = "litellm"
    if "adapted" in request.fixturenames:
        adapter, _ = request.getfixturevalue("adapted")
    router = ModelRouter(adapter, os.environ, timeouts=timeouts)
    yield router
    await router.close()
