"""U3: the request that litellm builds for each provider, and how it parses each answer.

The window has a system message before its turns and one after them, as a note, a summary or a
carried text would add. Where each provider gets them is fixed here, because litellm decides it and
a release may change it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.services.model.model_requests import collect_answer
from tests.support.servers.bedrock_frames import encode_event_frame
from tests.support.servers.model_behaviours import ModelAnswer, ModelBehaviour, RawFrames
from tests.support.servers.openai_server import OpenAIServer
from turnlog.services.worker.model.litellm_model import LitellmModel
from turnlog.services.worker.model.model_types import FinishedAnswer, ModelRequest, ModelUsage

SCHEMA = {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]}

TOOL = {
    "type": "function",
    "function": {"name": "clock", "description": "Tells the time.", "parameters": SCHEMA},
}

MESSAGES = (
    {"role": "system", "content": "Rules."},
    {"role": "user", "content": "One?"},
    {"role": "assistant", "content": "Two."},
    {"role": "system", "content": "A note."},
    {"role": "user", "content": "Three?"},
)

ARGUMENTS = '{"zone": "UTC"}'

NO_ARGUMENTS: dict[str, str] = {}

ROUND_MESSAGES = (
    {"role": "user", "content": "What time is it?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "t1",
                "type": "function",
                "function": {"name": "clock", "arguments": ARGUMENTS},
            },
            {"id": "t2", "type": "function", "function": {"name": "clock", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "content": "12:00", "tool_call_id": "t1"},
    {"role": "tool", "content": "refused: no zone", "tool_call_id": "t2"},
)
"""A tool round: an answer without words that calls a tool twice, and the two results."""

NOTE = (
    "Operator note (not from the user): the following was originally a mid-conversation "
    "system-role reminder."
)
"""litellm's own words: some providers have no system message behind the first turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCase:
    """One provider: how it is reached, what it is sent and how its answer is read."""

    model: str
    base: Callable[[OpenAIServer], Mapping[str, str]]
    """Its environment variables."""
    body: Mapping[str, object]
    """The part of the request body that holds the window."""
    rounds: Sequence[Mapping[str, object]]
    """`ROUND_MESSAGES` in the request body."""
    answer: ModelBehaviour
    """An answer that requests the tool and reports nine input and four output tokens."""
    cached: int = 0
    """The cached tokens of the input."""


def build_text_blocks(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


def add_empty_images(message: Mapping[str, str]) -> dict[str, object]:
    pictures: list[str] = []
    return {**message, "images": pictures}


def build_text_parts(*texts: str) -> list[dict[str, str]]:
    return [{"text": text} for text in texts]


def encode_sse(*events: Mapping[str, Any]) -> RawFrames:
    return RawFrames(
        tuple(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)
    )


OPENAI = ProviderCase(
    model="openai/heron",
    base=lambda server: {"OPENAI_API_BASE": server.url, "OPENAI_API_KEY": "k"},
    body={"messages": [*MESSAGES], "tools": [TOOL]},
    rounds=[{name: value for name, value in each.items() if value} for each in ROUND_MESSAGES],
    answer=ModelAnswer(
        tokens=(),
        finish="tool_calls",
        tool_calls=(("clock", ARGUMENTS),),
        usage={"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
    ),
)

ANTHROPIC = ProviderCase(
    model="anthropic/heron",
    base=lambda server: {"ANTHROPIC_API_BASE": server.root, "ANTHROPIC_API_KEY": "k"},
    body={
        "system": build_text_blocks("Rules."),
        "messages": [
            {"role": "user", "content": build_text_blocks("One?")},
            {"role": "assistant", "content": build_text_blocks("Two.")},
            {"role": "user", "content": build_text_blocks(NOTE, "A note.", "Three?")},
        ],
        "tools": [
            {
                "name": "clock",
                "input_schema": SCHEMA,
                "type": "custom",
                "description": "Tells the time.",
            }
        ],
    },
    rounds=[
        {"role": "user", "content": build_text_blocks("What time is it?")},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "t1", "name": "clock", "input": {"zone": "UTC"}},
                {"type": "tool_use", "id": "t2", "name": "clock", "input": NO_ARGUMENTS},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "12:00"},
                {"type": "tool_result", "tool_use_id": "t2", "content": "refused: no zone"},
            ],
        },
    ],
    answer=encode_sse(
        {
            "type": "message_start",
            "message": {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "heron",
                "content": [],
                "stop_reason": None,
                "usage": {"input_tokens": 6, "cache_read_input_tokens": 3, "output_tokens": 1},
            },
        },
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "tool_use", "id": "t1", "name": "clock", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": ARGUMENTS},
        },
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 4},
        },
        {"type": "message_stop"},
    ),
    cached=3,
)

GEMINI = ProviderCase(
    model="gemini/gemini-2.5-flash",
    base=lambda server: {"GEMINI_API_BASE": server.root, "GEMINI_API_KEY": "k"},
    body={
        "system_instruction": {"parts": build_text_parts("Rules.", "A note.")},
        "contents": [
            {"role": "user", "parts": build_text_parts("One?")},
            {"role": "model", "parts": build_text_parts("Two.")},
            {"role": "user", "parts": build_text_parts("Three?")},
        ],
        "tools": [
            {
                "function_declarations": [
                    {"name": "clock", "description": "Tells the time.", "parameters": SCHEMA}
                ]
            }
        ],
    },
    rounds=[
        {"role": "user", "parts": build_text_parts("What time is it?")},
        {
            "role": "model",
            "parts": [
                {"function_call": {"name": "clock", "args": {"zone": "UTC"}}},
                {"function_call": {"name": "clock", "args": NO_ARGUMENTS}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"function_response": {"name": "clock", "response": {"content": text}}}
                for text in ("12:00", "refused: no zone")
            ],
        },
    ],
    answer=RawFrames(
        (
            b"data: "
            + json.dumps(
                {
                    "candidates": [
                        {
                            "content": {
                                "role": "model",
                                "parts": [
                                    {"functionCall": {"name": "clock", "args": {"zone": "UTC"}}}
                                ],
                            },
                            "finishReason": "STOP",
                        }
                    ],
                    "usageMetadata": {
                        "promptTokenCount": 9,
                        "candidatesTokenCount": 4,
                        "totalTokenCount": 13,
                    },
                }
            ).encode()
            + b"\r\n\r\n",
        )
    ),
)

BEDROCK = ProviderCase(
    model="bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    base=lambda server: {
        "AWS_BEDROCK_RUNTIME_ENDPOINT": server.root,
        "AWS_REGION_NAME": "us-east-1",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    },
    body={
        "system": build_text_parts("Rules."),
        "messages": [
            {"role": "user", "content": build_text_parts("One?")},
            {"role": "assistant", "content": build_text_parts("Two.")},
            {"role": "user", "content": build_text_parts(NOTE, "A note.", "Three?")},
        ],
        "toolConfig": {
            "tools": [
                {
                    "toolSpec": {
                        "name": "clock",
                        "description": "Tells the time.",
                        "inputSchema": {"json": SCHEMA},
                    }
                }
            ]
        },
    },
    rounds=[
        {"role": "user", "content": build_text_parts("What time is it?")},
        {
            "role": "assistant",
            "content": [
                {"toolUse": {"input": {"zone": "UTC"}, "name": "clock", "toolUseId": "t1"}},
                {"toolUse": {"input": NO_ARGUMENTS, "name": "clock", "toolUseId": "t2"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"content": build_text_parts(text), "toolUseId": id}}
                for id, text in (("t1", "12:00"), ("t2", "refused: no zone"))
            ],
        },
    ],
    answer=RawFrames(
        (
            encode_event_frame("messageStart", {"role": "assistant"}),
            encode_event_frame(
                "contentBlockStart",
                {
                    "contentBlockIndex": 0,
                    "start": {"toolUse": {"toolUseId": "t1", "name": "clock"}},
                },
            ),
            encode_event_frame(
                "contentBlockDelta",
                {"contentBlockIndex": 0, "delta": {"toolUse": {"input": ARGUMENTS}}},
            ),
            encode_event_frame("contentBlockStop", {"contentBlockIndex": 0}),
            encode_event_frame("messageStop", {"stopReason": "tool_use"}),
            encode_event_frame(
                "metadata",
                {
                    "usage": {"inputTokens": 9, "outputTokens": 4, "totalTokens": 13},
                    "metrics": {"latencyMs": 5},
                },
            ),
        )
    ),
)

OLLAMA = ProviderCase(
    model="ollama_chat/heron",
    base=lambda server: {"OLLAMA_API_BASE": server.root},
    body={"messages": [add_empty_images(each) for each in MESSAGES], "tools": [TOOL]},
    rounds=[
        {"role": "user", "content": "What time is it?", "images": []},
        {
            "role": "assistant",
            "content": "",
            "images": [],
            "tool_calls": [
                {"function": {"name": "clock", "arguments": {"zone": "UTC"}}},
                {"function": {"name": "clock", "arguments": NO_ARGUMENTS}},
            ],
        },
        {"role": "tool", "content": "12:00", "images": [], "tool_call_id": "t1"},
        {"role": "tool", "content": "refused: no zone", "images": [], "tool_call_id": "t2"},
    ],
    answer=RawFrames(
        (
            json.dumps(
                {
                    "model": "heron",
                    "message": {
                        "role": "assistant",
                        "content": "",
                        "tool_calls": [
                            {"function": {"name": "clock", "arguments": {"zone": "UTC"}}}
                        ],
                    },
                    "done": True,
                    "done_reason": "stop",
                    "prompt_eval_count": 9,
                    "eval_count": 4,
                }
            ).encode()
            + b"\n",
        )
    ),
)

EVERY = pytest.mark.parametrize(
    "provider",
    [OPENAI, ANTHROPIC, GEMINI, BEDROCK, OLLAMA],
    ids=lambda each: each.model.partition("/")[0],
)


async def send_window(
    provider: ProviderCase,
    server: OpenAIServer,
    environment: pytest.MonkeyPatch,
    messages: Sequence[Mapping[str, object]] = MESSAGES,
) -> FinishedAnswer:
    for name, value in provider.base(server).items():
        environment.setenv(name, value)
    server.queue_behaviours(provider.answer)
    request = ModelRequest(
        model=provider.model,
        messages=tuple(messages),
        tools=(TOOL,),
        parameters={"temperature": 0.2},
    )
    return (await collect_answer(LitellmModel(), request)).finished


@EVERY
async def test_u3_every_provider_receives_the_window_in_its_own_format(
    provider: ProviderCase, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_window(provider, server, monkeypatch)
    (exchange,) = server.exchanges
    assert {name: exchange.body.get(name) for name in provider.body} == provider.body


@EVERY
async def test_u3_tool_calls_and_usage_of_every_provider_are_parsed(
    provider: ProviderCase, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = await send_window(provider, server, monkeypatch)
    (call,) = finished.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("clock", json.loads(ARGUMENTS))
    assert call.id
    assert finished.finish_reason == "tool_calls"
    assert finished.usage == ModelUsage(9, 4, cached_input_tokens=provider.cached)


@EVERY
async def test_tool_round_is_sent_to_every_provider_as_call_and_result_pairs(
    provider: ProviderCase, server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_window(provider, server, monkeypatch, ROUND_MESSAGES)
    (exchange,) = server.exchanges
    sent = exchange.body.get("messages") or exchange.body.get("contents")
    assert sent == [*provider.rounds]


async def test_mistral_gets_the_forced_tool_the_seed_and_no_text_that_is_not_in_the_prompt(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MISTRAL_AZURE_API_BASE", server.url)
    monkeypatch.setenv("MISTRAL_API_KEY", "key")
    choice = {"type": "function", "function": {"name": "clock"}}
    request = ModelRequest(
        model="mistral/magistral-medium-latest",
        messages=MESSAGES,
        tools=(TOOL,),
        parameters={"tool_choice": choice, "seed": 7, "reasoning_effort": "low"},
    )
    await collect_answer(LitellmModel(), request)
    body = server.exchanges[-1].body
    assert (body["tool_choice"], body["random_seed"]) == (choice, 7)
    assert body["messages"] == list(MESSAGES)
    assert "seed" not in body
