"""The four timeouts, each with its own error code."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import aclosing
from dataclasses import replace

import pytest

from tests.services.model.model_requests import (
    build_request,
    collect_answer,
    expect_failure,
    read_first_text,
)
from tests.support.servers.model_behaviours import (
    AnswerBreak,
    ModelAnswer,
    ModelSilence,
    RawFrames,
)
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.errors import Refused
from turnlog.projections.blueprint.schema.timeout_specs import TimeoutSpec
from turnlog.services.cli.environment import read_settings
from turnlog.services.platform.process_settings import WorkerSettings
from turnlog.services.worker.model.call_timeouts import CallTimeouts
from turnlog.services.worker.model.model_router import find_model_timeouts
from turnlog.services.worker.model.model_types import LanguageModel

LONG = 60.0

SHORT = 0.2


def encode_delta(text: str) -> bytes:
    chunk = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


END_FRAMES = (
    b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}\n\n',
    b"data: [DONE]\n\n",
)


async def wait_for_disconnects(server: OpenAIServer) -> None:
    """Require that no request keeps its connection."""
    async with asyncio.timeout(1):
        for exchange in server.exchanges:
            await exchange.client_left.wait()


@pytest.mark.parametrize("timeouts", [CallTimeouts(SHORT, LONG, LONG, LONG)])
@pytest.mark.parametrize("adapted", [("litellm", "openai/heron"), ("direct", "openai/heron")])
async def test_refused_connection_attempt_fails_with_timeout_connect(
    model: LanguageModel, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        # The kernel keeps one connection for a server that accepts none; the next has to wait.
        queue = [socket.create_connection(address), socket.socket()]
        queue[1].settimeout(0)
        queue[1].connect_ex(address)
        monkeypatch.setenv("OPENAI_API_BASE", f"http://127.0.0.1:{address[1]}/v1")
        failure = await expect_failure(model, build_request(name))
        for waiting in queue:
            waiting.close()
    assert (failure.code, failure.retryable) == ("timeout_connect", True)


@pytest.mark.parametrize("timeouts", [CallTimeouts(LONG, SHORT, LONG, LONG)])
@pytest.mark.parametrize("behaviour", [ModelSilence(), ModelAnswer(breaks=AnswerBreak(0, "stall"))])
async def test_provider_that_sends_no_token_fails_with_timeout_first_token(
    server: OpenAIServer, model: LanguageModel, name: str, behaviour: ModelSilence | ModelAnswer
) -> None:
    server.queue_behaviours(behaviour)
    failure = await expect_failure(model, build_request(name))
    assert (failure.code, failure.retryable) == ("timeout_first_token", True)
    await wait_for_disconnects(server)


@pytest.mark.parametrize("timeouts", [CallTimeouts(LONG, LONG, SHORT, LONG)])
async def test_provider_that_stops_sending_fails_with_timeout_stalled(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    server.queue_behaviours(ModelAnswer(breaks=AnswerBreak(1, "stall")))
    async with asyncio.timeout(LONG / 2):  # what ends it is not that a first token was awaited
        failure = await expect_failure(model, build_request(name))
    assert (failure.code, failure.retryable) == ("timeout_stalled", True)
    await wait_for_disconnects(server)


@pytest.mark.parametrize("timeouts", [CallTimeouts(LONG, LONG, between_tokens=2.0, total=LONG)])
@pytest.mark.parametrize("adapted", [("litellm", "openai/heron"), ("direct", "openai/heron")])
async def test_slow_reader_does_not_cause_a_stall_timeout(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    gate = asyncio.Event()
    server.queue_behaviours(ModelAnswer(tokens=("The ", "reeds."), gates={1: gate}))
    async with aclosing(model.stream(build_request(name))) as stream:
        await read_first_text(stream)
        await asyncio.sleep(2.1)
        asyncio.get_running_loop().call_later(0.1, gate.set)
        assert await read_first_text(stream) == "reeds."


@pytest.mark.parametrize("timeouts", [CallTimeouts(LONG, LONG, LONG, SHORT)])
async def test_endless_answer_fails_with_timeout_total(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    server.queue_behaviours(ModelAnswer(tokens=("on ",) * 1000 + ("and ",), pace=0.05))
    failure = await expect_failure(model, build_request(name))
    assert (failure.code, failure.retryable) == ("timeout_total", False)
    await wait_for_disconnects(server)


@pytest.mark.slow("waits longer than the limit of a silence")
@pytest.mark.parametrize(
    "timeouts", [CallTimeouts(LONG, first_token=2.0, between_tokens=2.0, total=LONG)]
)
@pytest.mark.parametrize("adapted", [("litellm", "openai/heron"), ("direct", "openai/heron")])
async def test_keep_alives_of_the_provider_count_as_life_before_and_between_tokens(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    alive = (b": PROCESSING\n\n",) * 14
    said = (encode_delta("Good "), *alive, encode_delta("day."), *END_FRAMES)
    server.queue_behaviours(RawFrames((*alive, *said), pace=0.2))
    answered = await collect_answer(model, build_request(name))
    assert answered.text == "Good day."


@pytest.mark.parametrize("adapted", [("litellm", "openai/heron"), ("direct", "openai/heron")])
async def test_timeouts_of_a_request_come_before_those_of_the_service(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    server.queue_behaviours(ModelSilence())
    request = replace(build_request(name), timeouts=TimeoutSpec(first_token=SHORT))
    assert (await expect_failure(model, request)).code == "timeout_first_token"


def test_longest_pattern_of_a_model_decides() -> None:
    by_model = {
        "*": TimeoutSpec(connect=1, first_token=2, total=3),
        "openai/*": TimeoutSpec(first_token=20, total=30),
        "openai/o3": TimeoutSpec(total=300),
    }
    found = find_model_timeouts(by_model, "openai/o3")
    assert found == TimeoutSpec(connect=1, first_token=20, total=300)
    assert find_model_timeouts(by_model, "ollama/qwen3") == by_model["*"]
    assert find_model_timeouts({}, "openai/o3") == TimeoutSpec()


def test_setting_maps_models_to_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    written = "openai/gpt-4.1.first_token=600, ollama/*.total=1800,ollama/*.connect=2.5,"
    monkeypatch.setenv("TURNLOG_MODEL_TIMEOUTS", written)
    assert read_settings(WorkerSettings, {}).model_timeouts == {
        "openai/gpt-4.1": TimeoutSpec(first_token=600),
        "ollama/*": TimeoutSpec(total=1800, connect=2.5),
    }


@pytest.mark.parametrize(
    "written", ["600", "first_token=600", "openai/o3.first=6", "a.total=0", "a.total=x", "a.total"]
)
def test_setting_with_other_timeouts_is_refused(
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNLOG_MODEL_TIMEOUTS", written)
    with pytest.raises(Refused) as refused:
        read_settings(WorkerSettings, {})
    assert refused.value.field is not None
    assert refused.value.field.startswith("TURNLOG_MODEL_TIMEOUTS")
