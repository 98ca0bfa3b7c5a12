from collections.abc import AsyncIterator

import pytest

from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.worker.model.call_timeouts import CallTimeouts
from turnlog.services.worker.model.litellm_model import LitellmModel

KEY = "sk-test-3f9AAb27c1"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OpenAIServer]:
    """A provider that both OpenAI routes of litellm lead to."""
    async with OpenAIServer() as server:
        for provider in ("OPENAI", "HOSTED_VLLM"):
            monkeypatch.setenv(f"{provider}_API_BASE", server.url)
            monkeypatch.setenv(f"{provider}_API_KEY", KEY)
        yield server


@pytest.fixture(params=["openai/heron", "hosted_vllm/heron"])
def name(request: pytest.FixtureRequest) -> str:
    """One model that litellm reaches by the OpenAI client, and one by its own client."""
    return str(request.param)


@pytest.fixture
def model() -> LitellmModel:
    # Longer than any test: what ends here ends for another reason.
    return LitellmModel(CallTimeouts(connect=60, first_token=60, stalled=60, total=60))
