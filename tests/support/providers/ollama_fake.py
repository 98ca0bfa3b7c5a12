"""Ollama's own chat API, and its servers of OpenAI's protocol.

Source: `docs/api.md` (*Generate a chat completion*) and `docs/openai.md` of Ollama.
"""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any, Literal

from tests.support.providers.deepseek_fake import check_reasoning_content
from tests.support.providers.openai_chat_fake import (
    check_media_bytes,
    check_results_follow_calls,
    count_chat_rounds,
    list_pieces,
    write_chat_answer,
)
from tests.support.providers.provider_dialogue import (
    Body,
    ProviderFake,
    ScriptedAnswer,
    require,
    write_json_refusal,
)
from tests.support.providers.published_schema import WireModel, check_model
from tests.support.servers.model_behaviours import ModelBehaviour, RawFrames


class CalledFunction(WireModel):
    name: str
    arguments: dict[str, Any]
    index: int = 0


class ToolCall(WireModel):
    id: str = ""
    type: Literal["function"] = "function"
    function: CalledFunction


class Message(WireModel):
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    thinking: str = ""
    images: list[str] = []
    tool_calls: list[ToolCall] = []
    tool_name: str = ""
    tool_call_id: str = ""


class Function(WireModel):
    name: str
    description: str
    parameters: dict[str, Any]


class Tool(WireModel):
    type: Literal["function"]
    function: Function


class ChatRequest(WireModel):
    model: str
    messages: list[Message]
    tools: list[Tool] = []
    think: bool | Literal["low", "medium", "high"]
    format: Any = None
    options: dict[str, Any] = {}
    stream: Literal[True]
    keep_alive: str | int | None = None


class OllamaFake(ProviderFake):
    """Takes pictures beside a text, and wants thoughts beside the calls of a turn's rounds."""

    name = "ollama"
    model = "ollama_chat/qwen3-vl:8b"
    reads = frozenset({"image"})

    path = "/api/chat"

    def list_variables(self, root: str) -> dict[str, str]:
        return {"OLLAMA_API_BASE": root}

    def check_request(self, body: Body) -> None:
        check_model(ChatRequest, body)
        read = ChatRequest.model_validate(body)
        require(read.think, "thinking is not on")
        for image in (image for message in read.messages for image in message.images):
            require(b64decode(image, validate=True), "an image is empty")
        check_reasoning_content(body["messages"], "thinking")

    def count_rounds(self, body: Body) -> int | None:
        return count_chat_rounds(body["messages"])

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        messages: list[dict[str, Any]] = [{"content": "", "thinking": answer.thought}]
        calls = [
            {"id": each.id, "function": {"name": each.tool, "arguments": dict(each.arguments)}}
            for each in answer.calls
        ]
        messages += [{"content": "", "tool_calls": calls}] if calls else []
        messages += [{"content": answer.text}] if answer.text else []
        base = {"model": "qwen3-vl:8b", "created_at": "2026-11-01T00:00:00Z"}
        lines: list[dict[str, Any]] = [
            {**base, "message": {"role": "assistant", **each}, "done": False} for each in messages
        ]
        end = {"done": True, "done_reason": "stop", "prompt_eval_count": 90, "eval_count": 20}
        lines.append({**base, "message": {"role": "assistant", "content": ""}, **end})
        return RawFrames(tuple(json.dumps(each).encode() + b"\n" for each in lines))

    def write_refusal(self, detail: str) -> ModelBehaviour:
        return write_json_refusal({"error": detail})


class OllamaCompatibleFake(ProviderFake):
    """Ollama's server of OpenAI's protocol: texts and pictures only."""

    name = "ollama compatible"
    model = "ollama/qwen3-vl:8b"
    adapters = ("direct",)
    reads = frozenset({"image"})

    path = "/v1/chat/completions"

    def list_variables(self, root: str) -> dict[str, str]:
        return {"OLLAMA_API_BASE": root}

    def check_request(self, body: Body) -> None:
        messages: list[dict[str, Any]] = body["messages"]
        check_media_bytes(messages)
        check_results_follow_calls(messages)
        check_reasoning_content(messages, "reasoning")
        for message in messages:
            for piece in list_pieces(message):
                require(piece["type"] in {"text", "image_url"}, "invalid message format")

    def count_rounds(self, body: Body) -> int | None:
        return count_chat_rounds(body["messages"])

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        return write_chat_answer(answer, {"reasoning": answer.thought})
