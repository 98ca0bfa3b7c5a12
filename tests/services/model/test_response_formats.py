"""What becomes of `response_format`: at the providers, and in litellm's own account of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from tests.services.model.model_requests import build_request, collect_answer
from tests.support.servers.model_behaviours import RawFrames
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.model_facts.response_formats import ResponseFormats
from turnlog.services.worker.model.litellm_model import LitellmModel
from turnlog.services.worker.model.model_types import LanguageModel

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["mood"],
    "additionalProperties": False,
    "properties": {"mood": {"type": "string"}},
}

PARAMETERS = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True},
    }
}

FINE = '{"mood": "fine"}'

ASKED_OFFLINE = ("anthropic/", "azure/", "deepseek/", "gemini/", "mistral/", "openai/", "xai/")
"""Providers about whose models litellm asks nobody."""


async def test_anthropic_receives_the_schema_without_a_forced_tool(
    server: OpenAIServer, model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_BASE", server.root)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    usage = {"input_tokens": 25, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [],
    }
    delta = {"type": "text_delta", "text": FINE}
    ending = {"stop_reason": "end_turn"}
    server.queue_behaviours(
        encode_sse(
            {"type": "message_start", "message": message | {"usage": usage}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 15}},
            {"type": "message_stop"},
        )
    )
    request = build_request("anthropic/claude-haiku-4-5", parameters=PARAMETERS)
    answered = await collect_answer(model, request)
    assert (answered.text, answered.finished.finish_reason) == (FINE, "stop")
    (exchange,) = server.exchanges
    assert SCHEMA in iterate_objects(exchange.body)
    assert not {"tools", "tool_choice"} & exchange.body.keys()


async def test_gemini_receives_the_schema(
    server: OpenAIServer, model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_BASE", server.root)
    monkeypatch.setenv("GEMINI_API_KEY", "gk")
    content = {"role": "model", "parts": [{"text": FINE}]}
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}
    candidates = [{"content": content, "finishReason": "STOP"}]
    body = {"responseId": "gem-1", "candidates": candidates, "usageMetadata": usage}
    server.queue_behaviours(RawFrames((f"data: {json.dumps(body)}\r\n\r\n".encode(),)))
    request = build_request("gemini/gemini-2.5-flash", parameters=PARAMETERS)
    answered = await collect_answer(model, request)
    assert (answered.text, answered.finished.finish_reason) == (FINE, "stop")
    (exchange,) = server.exchanges
    named = [each for each in iterate_objects(exchange.body) if "mood" in each]
    assert named, exchange.body


def encode_sse(*each: dict[str, object]) -> RawFrames:
    return RawFrames(tuple(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in each))


def iterate_objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        yield entries
        for each in entries.values():
            yield from iterate_objects(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from iterate_objects(each)


async def test_response_format_table_lists_only_models_that_litellm_supports() -> None:
    await LitellmModel().load_early()
    import litellm  # noqa: PLC0415 - after the environment of `load_early`

    takers = (await ResponseFormats().load_table()).takers
    checked = [name for name in takers if name.startswith(ASKED_OFFLINE)]
    assert len(checked) > 200
    for name in checked:
        assert litellm.supports_response_schema(name), name
        assert "response_format" in (litellm.get_supported_openai_params(name) or ()), name
