"""The four timeouts, each with a reason of its own."""

import asyncio
import socket

import pytest

from tests.parts.openai_behaviours import Answer, Break, Silence
from tests.parts.openai_server import OpenAIServer
from tests.services.model.asking import fail, request
from turnlog.services.worker.model.litellm_model import LitellmModel
from turnlog.services.worker.model.timeouts import Timeouts

LONG = 60.0
SHORT = 0.2


async def test_a_provider_that_takes_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        # The kernel keeps one connection for a server that accepts none; the next has to wait.
        queue = [socket.create_connection(address), socket.socket()]
        queue[1].settimeout(0)
        queue[1].connect_ex(address)
        monkeypatch.setenv("OPENAI_API_BASE", f"http://127.0.0.1:{address[1]}/v1")
        failure = await fail(
            LitellmModel(Timeouts(SHORT, LONG, LONG, LONG)), request("openai/heron")
        )
        for waiting in queue:
            waiting.close()
    assert (failure.code, failure.retryable) == ("timeout_connect", True)


@pytest.mark.parametrize("behaviour", [Silence(), Answer(breaks=Break(0, "stall"))])
async def test_a_provider_that_never_begins(
    server: OpenAIServer, name: str, behaviour: Silence | Answer
) -> None:
    server.will(behaviour)
    failure = await fail(LitellmModel(Timeouts(LONG, SHORT, LONG, LONG)), request(name))
    assert (failure.code, failure.retryable) == ("timeout_first_token", True)
    async with asyncio.timeout(1):
        await (await server.exchange(1)).left.wait()


async def test_a_provider_that_falls_silent(server: OpenAIServer, name: str) -> None:
    server.will(Answer(breaks=Break(1, "stall")))
    failure = await fail(LitellmModel(Timeouts(LONG, LONG, SHORT, LONG)), request(name))
    assert (failure.code, failure.retryable) == ("timeout_stalled", True)
    async with asyncio.timeout(1):
        await (await server.exchange(1)).left.wait()


async def test_a_provider_that_never_ends(server: OpenAIServer, name: str) -> None:
    server.will(Answer(tokens=("on ",) * 1000 + ("and ",), pace=0.05))
    failure = await fail(LitellmModel(Timeouts(LONG, LONG, LONG, SHORT)), request(name))
    assert (failure.code, failure.retryable) == ("timeout_total", False)
    async with asyncio.timeout(1):
        await (await server.exchange(1)).left.wait()
