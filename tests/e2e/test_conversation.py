"""A conversation over HTTP, through a worker and litellm, with a provider that is really called."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from tests.services.gateway.streaming.sse_client import ResumingWatcher
from tests.support.processes.turnlog_up import TurnlogUp
from tests.support.servers.model_behaviours import ModelAnswer
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.model.call_events import AttemptEnded
from turnlog.events.model.turn_events import TurnCancelled

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_provider_receives_the_recorded_prompt(up: TurnlogUp, provider: OpenAIServer) -> None:
    session = await up.service.open_session()
    provider.queue_behaviours(
        ModelAnswer(tokens=("Paris, ", "of course.")),
        ModelAnswer(tokens=("About two ", "million.")),
    )
    exchange_count = len(provider.exchanges)
    first = await up.service.run_turn(session, "What is the capital of France?")
    second = await up.service.run_turn(session, "And how many live there?")
    assert [first["reply"], second["reply"]] == ["Paris, of course.", "About two million."]
    for call, exchange in zip(("1.1", "2.1"), provider.exchanges[exchange_count:], strict=True):
        prompt = await up.service.get_json(f"/v1/sessions/{session}/calls/{call}/prompt")
        assert prompt["verified"]
        assert exchange.body["messages"] == prompt["messages"]
    sent: Any = provider.exchanges[-1].body["messages"]
    assert sent[-3:] == [
        {"role": "user", "content": "What is the capital of France?"},
        {"role": "assistant", "content": "Paris, of course."},
        {"role": "user", "content": "And how many live there?"},
    ]


async def test_usage_of_a_call_is_recorded_as_the_provider_reported_it(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await up.service.open_session()
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 100,
        "completion_tokens_details": {"reasoning_tokens": 60},
    }
    provider.queue_behaviours(ModelAnswer(usage=usage, finish="length"))
    turn = await up.service.run_turn(session)
    assert (turn["status"], turn["reply"], turn["finish"]) == ("completed", "An answer.", "length")
    (call,) = await up.service.list_calls(session)
    assert (call["model"], call["finish"], call["known"]) == (
        "openai/gpt-4o-mini",
        "length",
        "reported",
    )
    assert (call["input_tokens"], call["output_tokens"]) == (1000, 100)
    # 15 cents a million tokens sent, 60 cents a million received
    assert call["micro_dollars"] == 1000 * 0.15 + 100 * 0.60
    (ended,) = await up.service.list_events_of_type(session, AttemptEnded)
    assert (ended.response_id, ended.usage.reasoning_tokens) == ("chatcmpl-1", 60)
    page = await up.service.get_json(f"/v1/sessions/{session}/events")
    assert '"response_id": "chatcmpl-1"' in json.dumps(page)
    (attempt,) = call["attempts"]
    assert (attempt["outcome"], attempt["price"], attempt["fault"]) == ("answered", "exact", None)


async def test_streamed_tokens_equal_the_recorded_reply_over_random_disconnects(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    chance = random.Random(7)  # noqa: S311 - chance, not a secret
    session = await up.service.open_session()
    words = tuple(f"word {number} " for number in range(200))
    provider.queue_behaviours(ModelAnswer(tokens=words, pace=0.002))
    await up.service.submit_turn(session)
    assert up.service.http.base_url.port
    watcher = ResumingWatcher(
        port=up.service.http.base_url.port, path=f"/v1/sessions/{session}/turns/1/stream"
    )
    connections = 0
    while watcher.end_event is None:
        await watcher.watch_connection(chance.randint(1, 1500))
        connections += 1
    assert connections > 1
    assert watcher.end_event.name == "done"
    history = await up.service.get_json(f"/v1/sessions/{session}/history")
    assert watcher.text == history["turns"][0]["reply"] == "".join(words)


@pytest.mark.promise("P19")
async def test_api_key_is_sent_to_the_provider_and_recorded_nowhere(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await up.service.open_session()
    await up.service.run_turn(session)
    assert provider.exchanges[-1].headers["authorization"] == "Bearer sk-of-nobody"
    stored = b"".join(recorded.stored for recorded in await up.service.list_events(session))
    assert b"sk-of-nobody" not in stored


async def test_cancelling_a_turn_closes_the_connection_to_the_provider(
    up: TurnlogUp, provider: OpenAIServer
) -> None:
    session = await up.service.open_session()
    provider.queue_behaviours(ModelAnswer(gates={1: asyncio.Event()}))
    turn = await up.service.submit_turn(session)
    async with up.service.watch_turn(session, turn) as watched:
        events = watched.iterate_events()
        assert (await anext(events)).name == "token"
        exchange = provider.exchanges[-1]
        assert not exchange.client_left.is_set()
        cancelled = await up.service.http.post(f"/v1/sessions/{session}/cancel")
        assert cancelled.status_code == 200
        async with asyncio.timeout(10):
            await exchange.client_left.wait()
        assert (await anext(events)).name == "cancelled"
    assert (await up.service.wait_for_event(session, TurnCancelled)).reason == "cancelled"
    assert (await up.service.run_turn(session, "Still there?"))["status"] == "completed"
