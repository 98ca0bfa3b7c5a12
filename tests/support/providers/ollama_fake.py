"""Ollama's own chat API, and its servers of OpenAI's protocol.

Source: `api/types.go`, `openai/openai.go` and `docs/api.md` of ollama/ollama at fb307609.
Go leaves out members that a type lacks; the fakes refuse them, so that nothing is sent in vain.
Both answer without earlier thoughts too; the fakes want them, each before its calls.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from typing import Annotated, Any, Final, Literal

from pydantic import Field

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

_IMAGE: Final = re.compile(r"data:(image/(jpeg|jpg|png|webp))?;base64,")


class CalledFunction(WireModel):
    name: str
    arguments: dict[str, Any]
    index: int = 0


class ToolCall(WireModel):
    id: str = ""
    function: CalledFunction


class Message(WireModel):
    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    thinking: str = ""
    images: list[str] = []
    tool_calls: list[ToolCall] = []
    tool_name: str = ""
    tool_call_id: str = ""


class ToolProperty(WireModel):
    """A property of a tool; other members of JSON Schema are left out in silence."""

    model_config = {**WireModel.model_config, "extra": "ignore"}

    any_of: Annotated[list[ToolProperty], Field(alias="anyOf")] = []
    type: str | list[str] = ""
    items: Any = None
    description: str = ""
    enum: list[Any] = []
    properties: dict[str, ToolProperty] = {}
    required: list[str] = []


class ToolParameters(WireModel):
    """The parameters of a tool; as above."""

    model_config = {**WireModel.model_config, "extra": "ignore"}

    type: str = ""
    items: Any = None
    required: list[str] = []
    properties: dict[str, ToolProperty] = {}


class Function(WireModel):
    name: str
    description: str = ""
    parameters: ToolParameters


class Tool(WireModel):
    type: Literal["function"]
    function: Function


class ChatRequest(WireModel):
    model: str
    messages: list[Message]
    tools: list[Tool] = []
    think: bool | Literal["low", "medium", "high", "max"]
    format: Literal["json"] | dict[str, Any] | None = None
    options: dict[str, Any] = {}
    stream: Literal[True]
    keep_alive: str | int | None = None
    truncate: bool | None = None
    shift: bool | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Field(ge=0, le=20)] = 0


class WrittenFunction(WireModel):
    name: str
    arguments: str


class WrittenCall(WireModel):
    id: str
    index: int = 0
    type: Literal["function"]
    function: WrittenFunction


class ProtocolMessage(WireModel):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    reasoning: str = ""
    tool_calls: list[WrittenCall] | None = None
    name: str = ""
    tool_call_id: str = ""


class StreamOptions(WireModel):
    include_usage: bool


class JsonSchema(WireModel):
    name: str
    strict: bool | None = None
    schema_definition: Annotated[dict[str, Any], Field(alias="schema")]


class ResponseFormat(WireModel):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class ProtocolRequest(WireModel):
    model: str
    messages: list[ProtocolMessage]
    stream: Literal[True]
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    top_p: float | None = None
    response_format: ResponseFormat | None = None
    tools: list[Tool] = []
    reasoning_effort: (
        Literal["none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max"] | None
    ) = None


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
        self._check_results(read.messages)

    def _check_results(self, messages: list[Message]) -> None:
        """Refuse calls without a result each, which is found by its place."""
        waiting = 0
        for message in messages:
            require(waiting > 0 if message.role == "tool" else not waiting, "a call has no result")
            waiting += len(message.tool_calls) - (message.role == "tool")
        require(not waiting, "a call has no result")

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
    """Ollama's server of OpenAI's protocol, with a model that reads texts and pictures.

    It takes a result with a picture, and makes it two messages without the name of the call.
    """

    name = "ollama compatible"
    model = "ollama/qwen3-vl:8b"
    adapters = ("direct",)
    reads = frozenset({"image"})

    path = "/v1/chat/completions"

    def list_variables(self, root: str) -> dict[str, str]:
        return {"OLLAMA_API_BASE": root}

    def check_request(self, body: Body) -> None:
        check_model(ProtocolRequest, body)
        require(body.get("reasoning_effort"), "thinking is not on")
        messages: list[dict[str, Any]] = body["messages"]
        check_media_bytes(messages)
        check_results_follow_calls(messages)
        check_reasoning_content(messages, "reasoning")
        for message in messages:
            has_content = message.get("content") is not None or message.get("tool_calls")
            require(has_content, "invalid message content type")
            for call in message.get("tool_calls") or ():
                arguments = json.loads(call["function"]["arguments"])
                require(isinstance(arguments, dict), "invalid tool call arguments")
            for piece in list_pieces(message):
                known = {"text", "image_url", "input_audio"}
                require(piece["type"] in known, "invalid message format")
                if piece["type"] == "image_url":
                    require(_IMAGE.match(piece["image_url"]["url"]), "invalid image input")

    def count_rounds(self, body: Body) -> int | None:
        return count_chat_rounds(body["messages"])

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        return write_chat_answer(answer, {"reasoning": answer.thought})
