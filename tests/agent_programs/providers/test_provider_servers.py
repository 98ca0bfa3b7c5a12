"""The shipped `agent` with the servers of nine providers, each strict about its published schema.

A turn has a picture, a document and a spoken question, and takes two rounds of tools with thinking
on; a later turn follows. What a server does not read has a line in its place, and the server
refuses the request otherwise. It refuses as well where thoughts are not sent back as it wants them.
"""

from __future__ import annotations

import json
import os
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import pytest
import pytest_asyncio

from tests.agent_programs.agent_service import AgentService
from tests.services.media.media_samples import PNG, SAMPLES
from tests.support.providers.anthropic_fake import AnthropicFake
from tests.support.providers.deepseek_fake import (
    DeepSeekFake,
    ThoughtlessDeepSeekFake,
    UnaskedDeepSeekFake,
)
from tests.support.providers.gemini_fake import GeminiFake
from tests.support.providers.local_chat_fakes import QwenFake, VllmFake
from tests.support.providers.mistral_fake import MistralFake
from tests.support.providers.ollama_fake import OllamaCompatibleFake, OllamaFake
from tests.support.providers.openai_chat_fake import OpenAIChatFake
from tests.support.providers.openai_responses_fake import BridgedFake, OpenAIResponsesFake
from tests.support.providers.provider_dialogue import ANSWERS, LATER_ANSWER, ProviderFake
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.content import compute_digest, get_plain_text
from turnlog.events.model.call_events import CallCompleted
from turnlog.events.model.content_parts import MediaKind
from turnlog.events.model.tool_events import ToolCalled
from turnlog.services.bundle.bundle_unpacking import unpack_bundle
from turnlog.services.media.incoming_media import IncomingMedia
from turnlog.services.platform.process_settings import ModelAdapter
from turnlog.services.worker.model.model_router import ModelRouter

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.slow("the first one loads litellm, and each runs the verifier of a bundle"),
]

FAKES: Final = (
    AnthropicFake,
    OpenAIChatFake,
    OpenAIResponsesFake,
    BridgedFake,
    GeminiFake,
    MistralFake,
    DeepSeekFake,
    QwenFake,
    OllamaFake,
    OllamaCompatibleFake,
    VllmFake,
)

UNWITNESSED: Final = 6
"""The exit code of a bundle's verifier where all is as recorded, and nothing is signed."""

MEDIA: Final[dict[MediaKind, tuple[bytes, str, str]]] = {
    "image": (PNG, "bird.png", "(a picture is left out: bird.png)"),
    "file": (SAMPLES["application/pdf"], "fares.pdf", "(a file is left out: fares.pdf)"),
    "audio": (SAMPLES["audio/wav"], "question.wav", "(a recording is left out: question.wav)"),
}
"""The bytes, the name, and the line in the place of each."""


@dataclass(repr=False)
class ServedProvider:
    """The service with the server of one provider, called by one of the adapters."""

    service: AgentService
    fake: ProviderFake
    server: OpenAIServer


def iterate_pairs() -> Iterator[Any]:
    for kind in FAKES:
        for adapter in kind.adapters:
            yield pytest.param((kind, adapter), id=f"{kind.name} by {adapter}")


@pytest_asyncio.fixture(loop_scope="module", params=iterate_pairs())
async def provider(
    platform: AgentService, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ServedProvider]:
    kind, adapter = cast("tuple[type[ProviderFake], ModelAdapter]", request.param)
    fake, worker = kind(), platform.worker
    model, contexts = worker.model, worker.contexts
    async with OpenAIServer() as server:
        server.choose_behaviour = fake.choose
        for name, value in fake.list_variables(server.root).items():
            monkeypatch.setenv(name, value)
        worker.model = router = ModelRouter(adapter, os.environ)
        worker.contexts = replace(
            contexts, default_model=fake.model, sends_body=router.is_sent_as_recorded
        )
        yield ServedProvider(platform, fake, server)
        await router.close()
    worker.model, worker.contexts = model, contexts


def build_parts() -> list[dict[str, str]]:
    parts = [
        {"type": kind, "data": b64encode(data).decode(), "name": name}
        for kind, (data, name, _) in MEDIA.items()
    ]
    return [{"type": "text", "text": "Which bird is this?"}, *parts]


async def open_thinking_session(service: AgentService, *, keeps_thoughts: bool = False) -> str:
    """Open a session of the shipped `agent`, whose call asks its model to think."""
    call, name = "    tools: [all]\n", "thinking-agent"
    edits = {call: f"{call}    parameters: {{reasoning_effort: low}}\n"}
    if keeps_thoughts:
        name = "keeping-agent"
        edits["  recent: {}"] = "  recent: {reasoning: keep}"
    service.copy_shipped_blueprint("agent", name, edits)
    return await service.open_shipped_session(name, attributes={"instructions": "Be brief."})


async def test_media_rounds_with_thoughts_and_a_later_turn_are_accepted_and_on_record(
    provider: ServedProvider, tmp_path: Path
) -> None:
    service, fake, server = provider.service, provider.fake, provider.server
    service.shop.media = (IncomingMedia(PNG, "image/png"),)
    session = await open_thinking_session(service)
    first = await service.submit_turn(session, text=cast("Any", build_parts()))
    assert first["status"] == "completed", (first, fake.faults)
    later = await service.submit_turn(session, text="Where does it live?")
    assert later["status"] == "completed", (later, fake.faults)
    assert fake.faults == []
    assert (first["reply"], later["reply"]) == (ANSWERS[-1].text, LATER_ANSWER.text)
    assert [each.path.partition("?")[0] for each in server.exchanges] == [fake.path] * 4
    check_media(provider)
    check_thoughts_of_the_later_turn(provider)
    await check_record(provider, session)
    blobs = await check_bundle(service, session, tmp_path)
    assert {compute_digest(data) for data, _, _ in MEDIA.values()} <= blobs


async def test_later_turn_has_the_thought_before_the_reply_where_the_history_keeps_it(
    provider: ServedProvider, tmp_path: Path
) -> None:
    service, fake, server = provider.service, provider.fake, provider.server
    session = await open_thinking_session(service, keeps_thoughts=True)
    for text in ("Which bird is this?", "Where does it live?"):
        turn = await service.submit_turn(session, text=text)
        assert turn["status"] == "completed", (turn, fake.faults)
    assert fake.faults == []
    raw = server.exchanges[-1].raw.decode()
    *rounds, reply = ANSWERS
    assert (reply.thought in raw) == fake.thoughts_on_record
    assert (reply.signature in raw) == fake.thoughts_signed
    assert not any(each.thought in raw for each in rounds)
    prompt = (await check_prompts(service, session))[-1]
    assert (reply.thought in str(prompt["messages"])) == fake.thoughts_on_record
    await check_bundle(service, session, tmp_path)


@pytest.mark.parametrize("provider", [(UnaskedDeepSeekFake, "litellm")], indirect=True)
async def test_thoughts_that_nobody_asked_for_go_back_beside_their_calls(
    provider: ServedProvider,
) -> None:
    service, fake = provider.service, provider.fake
    attributes = {"instructions": "Be brief."}
    session = await service.open_shipped_session("agent", attributes=attributes)
    for text in ("Which bird is this?", "Where does it live?"):
        turn = await service.submit_turn(session, text=text)
        assert turn["status"] == "completed", (turn, fake.faults)
    assert fake.faults == []
    sent = [json.loads(each.raw)["messages"] for each in provider.server.exchanges]
    rounds = [each for each in sent[2] if each.get("tool_calls")]
    assert [each["reasoning_content"] for each in rounds] == [each.thought for each in ANSWERS[:2]]
    assert not any("reasoning_content" in each for each in sent[3])
    await check_prompts(service, session)


@pytest.mark.parametrize("provider", [(ThoughtlessDeepSeekFake, "litellm")], indirect=True)
async def test_calls_before_which_nothing_was_thought_have_a_blank_for_deepseek(
    provider: ServedProvider, tmp_path: Path
) -> None:
    service, fake = provider.service, provider.fake
    attributes = {"instructions": "Be brief."}
    session = await service.open_shipped_session("agent", attributes=attributes)
    for text in ("Which bird is this?", "Where does it live?"):
        turn = await service.submit_turn(session, text=text)
        assert turn["status"] == "completed", (turn, fake.faults)
    sent = [json.loads(each.raw)["messages"] for each in provider.server.exchanges]
    rounds = [each for each in sent[2] if each.get("tool_calls")]
    assert [each["reasoning_content"] for each in rounds] == [" ", " "]
    *_, last, _ = await check_prompts(service, session)
    blanks = [each for each in last["manifest"]["parts"] if each["layer"] == "reasoning"]
    assert [each["rule"] for each in blanks] == ["the server takes no tool calls without it"] * 2
    path = f"/v1/sessions/{session}"
    explained = await service.fetch_json(f"{path}/calls/1.3/why")
    assert str(explained).count("the server takes no tool calls without it") == 2
    compared = await service.fetch_json(f"{path}/calls/1.2/diff/1.3")
    assert "reasoning" in str(compared)
    await check_bundle(service, session, tmp_path)


@pytest.mark.parametrize("provider", [(AnthropicFake, "litellm")], indirect=True)
async def test_turn_says_that_the_provider_refused_a_forced_tool_beside_thinking(
    provider: ServedProvider,
) -> None:
    service, fake = provider.service, provider.fake
    call = "    tools: [all]\n"
    parameters = "    parameters: {reasoning_effort: low, tool_choice: required}\n"
    service.copy_shipped_blueprint("agent", "forced-agent", {call: f"{call}{parameters}"})
    attributes = {"instructions": "Be brief."}
    session = await service.open_shipped_session("forced-agent", attributes=attributes)
    turn = await service.submit_turn(session, text="Which bird is this?")
    assert fake.faults == ["tool_choice.type: Input should be 'auto' or 'none'"]
    shown = (turn["status"], turn["reason"], turn["detail"])
    assert shown == ("failed", "bad_request", "HTTP 400 invalid_request_error")


def check_media(provider: ServedProvider) -> None:
    """What the model reads is in each request, and a line is in the place of what it does not."""
    for exchange in provider.server.exchanges:
        raw = exchange.raw.decode()
        for kind, (data, _, line) in MEDIA.items():
            is_read = kind in provider.fake.reads
            assert (b64encode(data).decode() in raw) == is_read, kind
            assert (line in raw) != is_read, kind


def check_thoughts_of_the_later_turn(provider: ServedProvider) -> None:
    raw = provider.server.exchanges[-1].raw.decode()
    assert not any(each.thought in raw or each.signature in raw for each in ANSWERS)


async def check_record(provider: ServedProvider, session: str) -> None:
    """The log has the parts, the thoughts and the calls as the provider sent them."""
    service, fake = provider.service, provider.fake
    history = await service.fetch_json(f"/v1/sessions/{session}/history")
    parts = [(each["kind"], each["digest"], each["name"]) for each in history["turns"][0]["parts"]]
    assert parts == [(kind, compute_digest(data), name) for kind, (data, name, _) in MEDIA.items()]
    answers = await service.load_events(session, CallCompleted)
    thoughts = [get_plain_text(cast("Any", each.reasoning)) or "" for each in answers]
    for answer, thought in zip((*ANSWERS, LATER_ANSWER), thoughts, strict=True):
        assert (answer.thought in thought) == fake.thoughts_on_record, thought
    called = await service.load_events(session, ToolCalled)
    calls = [(each.tool, json.loads(each.arguments)) for each in called]
    assert calls == [(each.tool, each.arguments) for answer in ANSWERS for each in answer.calls]
    ran = [(f"harbour_{tool}", arguments) for tool, arguments in service.shop.tool_calls]
    assert ran == calls
    for prompt in await check_prompts(service, session):
        messages = str(prompt["messages"])
        for data, _, line in MEDIA.values():
            assert (compute_digest(data) in messages) != (line in messages)


async def check_prompts(service: AgentService, session: str) -> list[dict[str, Any]]:
    """Return the prompts of the dialogue, each of which is reproduced in both ways."""
    report = await service.fetch_json(f"/v1/sessions/{session}/verify")
    assert (report["verified"], report["reproduction"]) == (True, "reproduced"), report
    prompts = [await service.fetch_prompt(session, call) for call in ("1.1", "1.2", "1.3", "2.1")]
    for prompt in prompts:
        assert prompt["reference"]["outcome"] == prompt["assembly"]["outcome"] == "reproduced"
    return prompts


async def check_bundle(service: AgentService, session: str, folder: Path) -> frozenset[str]:
    """The verifier of a bundle, on its own, finds the session as recorded; returns the blobs."""
    answer = await service.http.get(f"/v1/sessions/{session}/export?format=bundle")
    (folder / "bundle.zip").write_bytes(answer.content)
    listed = unpack_bundle(folder / "bundle.zip", folder / "bundle")
    verifier = [sys.executable, "-I", "verify.py"]
    ran = await create_subprocess_exec(*verifier, cwd=folder / "bundle", stdout=PIPE)
    said, _ = await ran.communicate()
    assert ran.returncode == UNWITNESSED, said.decode()
    return frozenset(listed.blobs)
