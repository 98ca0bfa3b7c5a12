"""The protocols of other providers, as litellm implements them: text, usage and finish reasons."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import pytest

from tests.services.model.model_requests import build_request, collect_answer, expect_failure
from tests.support.servers.model_behaviours import RawFrames
from tests.support.servers.openai_server import OpenAIServer
from turnlog.events.tokens import ToolRequest
from turnlog.projections.prompt.chat_request import ChatMessage
from turnlog.services.worker.model.model_types import LanguageModel, ModelRequest, ModelUsage


@pytest.fixture
async def anthropic(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    monkeypatch.setenv("ANTHROPIC_API_BASE", server.root)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    return server


@pytest.fixture
async def gemini(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    monkeypatch.setenv("GEMINI_API_BASE", server.root)
    monkeypatch.setenv("GEMINI_API_KEY", "gk")
    return server


@pytest.fixture
async def ollama(server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    monkeypatch.setenv("OLLAMA_API_BASE", server.root)
    return server


def encode_sse(*each: Mapping[str, object]) -> RawFrames:
    return RawFrames(tuple(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in each))


def build_text_delta(text: str) -> dict[str, object]:
    delta = {"type": "text_delta", "text": text}
    return {"type": "content_block_delta", "index": 0, "delta": delta}


START: tuple[dict[str, object], ...] = (
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-heron",
            "content": [],
            "stop_reason": None,
            "usage": {"input_tokens": 25, "cache_read_input_tokens": 10, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
)


def build_stop(reason: str) -> dict[str, object]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason},
        "usage": {"output_tokens": 15},
    }


async def test_anthropic_stream_is_parsed(anthropic: OpenAIServer, model: LanguageModel) -> None:
    anthropic.queue_behaviours(
        encode_sse(
            *START,
            build_text_delta("The "),
            build_text_delta("reeds."),
            build_stop("max_tokens"),
            {"type": "message_stop"},
        )
    )
    answered = await collect_answer(model, build_request("anthropic/claude-heron"))
    assert answered.text == "The reeds."
    assert answered.finished.finish_reason == "length"
    assert answered.finished.usage == ModelUsage(35, 15, cached_input_tokens=10)
    assert answered.finished.response_id == "msg_1"


async def test_cache_marks_reach_anthropic_and_what_it_put_into_its_cache_is_read(
    anthropic: OpenAIServer, model: LanguageModel
) -> None:
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 10}
    start, block = START
    message = {
        **cast("dict[str, object]", start["message"]),
        "usage": {**usage, "output_tokens": 1},
    }
    anthropic.queue_behaviours(
        encode_sse(
            {**start, "message": message},
            block,
            build_text_delta("Yes."),
            build_stop("end_turn"),
            {"type": "message_stop"},
        )
    )
    marked = [
        ChatMessage("system", "Be brief.", ends_cached=True),
        ChatMessage("user", "The fare?"),
        ChatMessage("assistant", "", (ToolRequest(id="c1", tool="look", arguments="{}"),)),
        ChatMessage("tool", "3", tool_call_id="c1", ends_cached=True),
        ChatMessage("assistant", "Three.", ends_cached=True),
        ChatMessage("user", "And now?", ends_cached=True),
    ]
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    request = ModelRequest(
        model="anthropic/claude-heron",
        messages=tuple(each.encode_plain() for each in marked),
        tools=(tool,),
    )
    answered = await collect_answer(model, request)
    assert answered.finished.usage == ModelUsage(
        35, 15, cached_input_tokens=10, cache_write_tokens=20
    )
    body = json.dumps(anthropic.exchanges[0].body)
    assert body.count('"cache_control": {"type": "ephemeral"}') == 4


async def test_interrupted_anthropic_stream_fails_as_incomplete(
    anthropic: OpenAIServer, model: LanguageModel
) -> None:
    anthropic.queue_behaviours(encode_sse(*START, build_text_delta("The ")))
    assert (
        await expect_failure(model, build_request("anthropic/claude-heron"))
    ).code == "incomplete"


async def test_overloaded_anthropic_stream_fails_with_error_in_stream(
    anthropic: OpenAIServer, model: LanguageModel
) -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    anthropic.queue_behaviours(
        encode_sse(*START, build_text_delta("The "), {"type": "error", "error": error})
    )
    assert (
        await expect_failure(model, build_request("anthropic/claude-heron"))
    ).code == "error_in_stream"


@pytest.mark.parametrize(
    ("reason", "finish_reason"),
    [("STOP", "stop"), ("SAFETY", "safety"), ("RECITATION", "recitation")],
)
async def test_gemini_stream_is_parsed(
    gemini: OpenAIServer, model: LanguageModel, reason: str, finish_reason: str
) -> None:
    def frame(text: str, **candidate: object) -> bytes:
        content = {"role": "model", "parts": [{"text": text}]}
        usage = {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}
        candidates = [{"content": content, **candidate}]
        body = {"responseId": "gem-1", "candidates": candidates, "usageMetadata": usage}
        return f"data: {json.dumps(body)}\r\n\r\n".encode()

    gemini.queue_behaviours(RawFrames((frame("The "), frame("reeds.", finishReason=reason))))
    answered = await collect_answer(model, build_request("gemini/gemini-heron"))
    assert answered.text == "The reeds."
    assert answered.finished.finish_reason == finish_reason
    assert answered.finished.usage == ModelUsage(9, 4)
    assert answered.finished.response_id == "gem-1"


async def test_ollama_stream_is_parsed(ollama: OpenAIServer, model: LanguageModel) -> None:
    def line(text: str, **more: object) -> bytes:
        message = {"role": "assistant", "content": text}
        return json.dumps({"model": "heron", "message": message, **more}).encode() + b"\n"

    end = {"done": True, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 3}
    ollama.queue_behaviours(
        RawFrames((line("The ", done=False), line("reeds.", done=False), line("", **end)))
    )
    answered = await collect_answer(model, build_request("ollama_chat/heron"))
    assert answered.text == "The reeds."
    assert answered.finished.finish_reason == "stop"
    assert answered.finished.usage == ModelUsage(11, 3)
    assert answered.finished.response_id is None, "Ollama sends no id, litellm makes one up"
    assert len(ollama.exchanges) == 1, "litellm asked about the model, blocking the event loop"


async def test_openrouter_items_come_even_in_chunks_that_litellm_drops(
    server: OpenAIServer, model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENROUTER_API_BASE", server.url)
    monkeypatch.setenv("OPENROUTER_API_KEY", "or")
    text = {"type": "reasoning.text", "index": 0, "text": "Hm."}
    item = {"type": "reasoning.encrypted", "index": 1, "data": "abc"}
    deltas: list[dict[str, object]] = [
        {"role": "assistant", "reasoning": "Hm.", "reasoning_details": [text]},
        {"reasoning": None, "reasoning_details": [item]},
        {"content": "The reeds."},
    ]
    choices: list[dict[str, object]] = [
        {"index": 0, "delta": each, "finish_reason": None} for each in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    named = {"id": "gen-1", "object": "chat.completion.chunk", "created": 1, "model": "heron"}
    lines = [json.dumps({**named, "choices": [each]}) for each in choices]
    server.queue_behaviours(
        RawFrames(tuple(f"data: {each}\n\n".encode() for each in [*lines, "[DONE]"]))
    )
    answered = await collect_answer(model, build_request("openrouter/heron"))
    assert answered.text == "The reeds."
    assert json.loads(answered.reasoning) == {"reasoning_details": [text, item]}


async def test_anthropic_blocks_come_with_their_signatures(
    anthropic: OpenAIServer, model: LanguageModel
) -> None:
    deltas: list[tuple[int, dict[str, object]]] = [
        (0, {"type": "thinking_delta", "thinking": "I "}),
        (0, {"type": "thinking_delta", "thinking": "look."}),
        (0, {"type": "signature_delta", "signature": "sig"}),
    ]
    anthropic.queue_behaviours(
        encode_sse(
            START[0],
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "thinking", "thinking": "", "signature": ""},
            },
            *({"type": "content_block_delta", "index": at, "delta": delta} for at, delta in deltas),
            {
                "type": "content_block_start",
                "index": 1,
                "content_block": {"type": "redacted_thinking", "data": "xyz"},
            },
            {"type": "content_block_stop", "index": 1},
            {
                "type": "content_block_start",
                "index": 2,
                "content_block": {"type": "text", "text": ""},
            },
            build_text_delta("The reeds."),
            build_stop("end_turn"),
            {"type": "message_stop"},
        )
    )
    answered = await collect_answer(model, build_request("anthropic/claude-heron"))
    assert answered.text == "The reeds."
    signed = {"type": "thinking", "thinking": "I look.", "signature": "sig"}
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    assert json.loads(answered.reasoning) == {"thinking_blocks": [signed, redacted]}
