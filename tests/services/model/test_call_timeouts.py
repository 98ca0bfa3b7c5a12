"""The four timeouts, each with its own error code."""

from __future__ import annotations

import asyncio
import socket
from contextlib import aclosing

import pytest

from tests.services.model.model_requests import build_request, expect_failure, read_first_text
from tests.support.servers.model_behaviours import AnswerBreak, ModelAnswer, ModelSilence
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.worker.model.call_timeouts import CallTimeouts
from turnlog.services.worker.model.model_types import LanguageModel

LONG = 60.0

SHORT = 0.2


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


@pytest.mark.parametrize("timeouts", [CallTimeouts(LONG, LONG, stalled=2.0, total=LONG)])
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
