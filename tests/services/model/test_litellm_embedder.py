"""The embedder of litellm against a provider's server, whose faults are said as they are."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.support.servers.model_behaviours import ModelRefusal, ModelSilence, RawResponse
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.errors import Refused, Unavailable
from turnlog.services.knowledge.embedders import CheckedEmbedder, create_embedder
from turnlog.services.knowledge.static_embedder import StaticEmbedder

SETTING = "litellm:openai/heron-embed"

ONCE = {"x-should-retry": "false"}
"""Keeps OpenAI's client from asking again."""


def build_answer(*vectors: object, status: int = 200, **more: object) -> RawResponse:
    data = [{"object": "embedding", "index": n, "embedding": v} for n, v in enumerate(vectors)]
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    body = {"object": "list", "model": "heron-embed", "data": data, "usage": usage} | more
    return RawResponse(status, {"Content-Type": "application/json"}, json.dumps(body).encode())


async def test_provider_vectors_are_normalised_to_unit_length(server: OpenAIServer) -> None:
    server.queue_behaviours(build_answer([3.0, 4.0], [0.0, 2.0]))
    embedder = CheckedEmbedder(setting=SETTING)
    vectors = await embedder.embed_texts(["one", "two"])
    assert vectors == [pytest.approx([0.6, 0.8]), [0.0, 1.0]]
    assert (await embedder.load_version()).name == "litellm-openai/heron-embed"
    assert server.exchanges[0].body["input"] == ["one", "two"]


@pytest.mark.parametrize(
    ("behaviour", "what"),
    [
        (ModelRefusal(status=429, headers=ONCE), "status 429: it is asked again"),
        (ModelRefusal(status=401), "status 401: set the provider's key"),
        (ModelRefusal(status=500, headers=ONCE), "status 500"),
        (build_answer([1.0, 0.0]), "1 vectors for 2 texts"),
        (build_answer([1.0], [1.0, 0.0]), r"vectors of \[1, 2\] numbers"),
        (build_answer([], []), r"vectors of \[0\] numbers"),
        (build_answer(data=[], error={"message": "quota of sk-123"}), "litellm-openai/heron"),
        (RawResponse(200, {"Content-Type": "text/html"}, b"<>"), "litellm-openai/heron"),
    ],
)
async def test_provider_fault_is_reported_without_quoting_the_provider(
    server: OpenAIServer, behaviour: RawResponse | ModelRefusal, what: str
) -> None:
    server.queue_behaviours(behaviour)
    with pytest.raises(Unavailable, match=what) as failure:
        await CheckedEmbedder(setting=SETTING).embed_texts(["one", "two"])
    assert failure.value.what == "embedder"
    assert "sk-" not in str(failure.value)


async def test_silent_provider_raises_unavailable_after_the_timeout(server: OpenAIServer) -> None:
    server.queue_behaviours(build_answer([1.0]), ModelSilence())
    embedder = CheckedEmbedder(setting=SETTING)
    await embedder.embed_texts(["one"])
    embedder.timeout = 0.5
    with pytest.raises(Unavailable, match=r"no answer in 0\.5 s"):
        await embedder.embed_texts(["one"])
    assert len(server.exchanges) == 2


@dataclass(frozen=True, slots=True)
class FixedEmbedder:
    vectors: list[list[float]]
    name: str = "fixed"

    async def embed_texts(self, texts: object) -> list[list[float]]:
        del texts
        return self.vectors


async def test_vector_with_a_non_finite_number_is_rejected() -> None:
    embedder = CheckedEmbedder(_created=FixedEmbedder([[1.0, float("nan")]]))
    with pytest.raises(Unavailable, match="fixed: a vector with a number that is not finite"):
        await embedder.embed_texts(["one"])


def test_unknown_embedder_setting_is_refused_with_a_fix() -> None:
    for setting, fix in (
        ("wordlama", "write `wordllama`"),
        ("wordllama:large", "without a model"),
        ("litellm", "write the model too"),
        ("mine", "turnlog.embedders"),
    ):
        with pytest.raises(Refused) as refusal:
            create_embedder(setting)
        assert refusal.value.code == "unknown-embedder"
        assert fix in refusal.value.fix


async def test_the_shipped_embedder_gives_the_same_vector_in_any_batch() -> None:
    embedder = StaticEmbedder()
    alone = await embedder.embed_texts(["late ships"])
    among = await embedder.embed_texts(["a much longer text of other words", "late ships", ""])
    assert list(alone[0]) == list(among[1])
    assert (len(alone[0]), set(among[2])) == (256, {0.0})
