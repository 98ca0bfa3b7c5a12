"""Answers through litellm, over HTTP, from a server with the OpenAI protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from contextvars import Context
from typing import Any, cast

import pytest

from tests.services.model.model_requests import (
    QUESTION,
    build_request,
    collect_answer,
    read_first_text,
)
from tests.support.servers.model_behaviours import ModelAnswer, RawFrames
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.worker.model.litellm_model import LitellmModel
from turnlog.services.worker.model.model_types import (
    FinishedAnswer,
    LanguageModel,
    ModelToolCall,
    ModelUsage,
)

LOOK: dict[str, object] = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}


async def test_answer_streams_tokens_and_then_the_finished_answer(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    server.queue_behaviours(ModelAnswer(tokens=("The ", "tide ", "turns.")))
    answered = await collect_answer(model, build_request(name))
    assert answered.deltas == ("The ", "tide ", "turns.")
    assert answered.finished == FinishedAnswer(
        finish_reason="stop",
        tool_calls=(),
        usage=ModelUsage(input_tokens=7, output_tokens=2),
        model="heron",
        response_id="chatcmpl-1",
    )


async def test_response_id_is_none_if_the_provider_sends_none(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    choices = [{"index": 0, "delta": {"content": "The tide."}, "finish_reason": "stop"}]
    chunk = {"object": "chat.completion.chunk", "created": 0, "model": "heron", "choices": choices}
    frame = f"data: {json.dumps(chunk)}\n\n".encode()
    server.queue_behaviours(RawFrames((frame, b"data: [DONE]\n\n")))
    answered = await collect_answer(model, build_request(name))
    assert answered.text == "The tide."
    assert answered.finished.response_id is None


async def test_each_token_is_delivered_before_the_next_one_is_sent(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    gate = asyncio.Event()
    server.queue_behaviours(ModelAnswer(tokens=("first ", "second"), gates={1: gate}))
    async with aclosing(model.stream(build_request(name))) as stream:
        assert await read_first_text(stream) == "first "
        gate.set()
        assert await read_first_text(stream) == "second"


async def test_litellm_success_handlers_do_not_run(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    begun: list[str] = []

    def task(
        loop: asyncio.AbstractEventLoop,
        work: Coroutine[Any, Any, Any],
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        begun.append(getattr(work, "__qualname__", ""))
        return asyncio.Task(work, loop=loop, context=context)

    asyncio.get_running_loop().set_task_factory(task)  # type: ignore[arg-type]
    server.queue_behaviours(ModelAnswer(tokens=("The ", "tide ", "turns.")))
    await collect_answer(model, build_request(name))
    assert [each for each in begun if "success_handlers" in each] == []


@pytest.mark.usefixtures("server")
async def test_litellm_does_not_rebuild_the_answer_from_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await LitellmModel().load_early()
    import litellm  # noqa: PLC0415 - after the environment of `load_early`

    built: list[object] = []
    build = cast("Callable[..., object]", litellm.stream_chunk_builder)

    def build_and_note(*arguments: Any, **named: Any) -> object:  # noqa: ANN401
        built.append(build(*arguments, **named))
        return built[-1]

    monkeypatch.setattr(litellm, "stream_chunk_builder", build_and_note)
    answered = await collect_answer(LitellmModel(), build_request("openai/heron"))
    assert answered.finished.usage == ModelUsage(input_tokens=7, output_tokens=2)
    assert set(built) == {None}


async def test_provider_receives_exactly_one_request(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    await collect_answer(
        model, build_request(name, tools=(LOOK,), parameters={"temperature": 0.5, "seed": 7})
    )
    assert [exchange.body for exchange in server.exchanges] == [
        {
            "model": "heron",
            "messages": [{"role": "user", "content": QUESTION}],
            "tools": [LOOK],
            "temperature": 0.5,
            "seed": 7,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ]


async def test_complete_tool_calls_are_delivered_with_the_finished_answer(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    calls = (("look", '{"where": "the reeds"}'), ("wait", "{}"))
    server.queue_behaviours(ModelAnswer(tokens=(), tool_calls=calls, finish="tool_calls"))
    answered = await collect_answer(model, build_request(name, tools=(LOOK,)))
    assert answered.text == ""
    assert answered.finished.finish_reason == "tool_calls"
    assert answered.finished.tool_calls == (
        ModelToolCall("call_0", "look", '{"where": "the reeds"}'),
        ModelToolCall("call_1", "wait", "{}"),
    )


@pytest.mark.parametrize(
    ("provider_reason", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("SAFETY", "safety"),
        ("RECITATION", "recitation"),
    ],
)
async def test_provider_finish_reason_is_mapped_to_ours(
    server: OpenAIServer, model: LanguageModel, name: str, provider_reason: str, reason: str
) -> None:
    server.queue_behaviours(ModelAnswer(finish=provider_reason))
    answered = await collect_answer(model, build_request(name))
    assert answered.text == "An answer."
    assert answered.finished.finish_reason == reason


async def test_answer_filtered_before_its_first_token_finishes_as_content_filter(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    server.queue_behaviours(ModelAnswer(tokens=(), finish="content_filter", usage=None))
    answered = await collect_answer(model, build_request(name))
    assert answered.text == ""
    assert answered.finished.finish_reason == "content_filter"


async def test_usage_is_none_if_the_provider_reports_none(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    server.queue_behaviours(ModelAnswer(usage=None))
    assert (await collect_answer(model, build_request(name))).finished.usage is None


async def test_cached_and_reasoning_tokens_are_reported_separately(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 20,
        "total_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 64},
        "completion_tokens_details": {"reasoning_tokens": 12},
    }
    server.queue_behaviours(ModelAnswer(usage=usage))
    assert (await collect_answer(model, build_request(name))).finished.usage == ModelUsage(
        100, 20, cached_input_tokens=64, reasoning_tokens=12
    )


async def test_closing_a_stream_early_closes_the_provider_connection(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    server.queue_behaviours(ModelAnswer(gates={1: asyncio.Event()}))
    async with aclosing(model.stream(build_request(name))) as stream:
        await read_first_text(stream)
        exchange = await server.wait_for_exchange(1)
        assert not exchange.client_left.is_set()
    async with asyncio.timeout(1):
        await exchange.client_left.wait()


async def test_cancelling_before_the_first_token_closes_the_provider_connection(
    server: OpenAIServer, model: LanguageModel, name: str
) -> None:
    server.queue_behaviours(ModelAnswer(gates={0: asyncio.Event()}))
    asking = asyncio.create_task(collect_answer(model, build_request(name)))
    exchange = await server.wait_for_exchange(1)
    asking.cancel()
    async with asyncio.timeout(1):
        await exchange.client_left.wait()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_local_server_needs_no_api_key(
    server: OpenAIServer, model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    await collect_answer(model, build_request("openai/heron"))
    assert len(server.exchanges) == 1
