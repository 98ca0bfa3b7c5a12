"""Mistral's chat completions, by models of its published types.

Source: `mistralai` 3.7.0, `ChatCompletionStreamRequest` and what it names, whose objects take no
other members. The rules of the service that the types do not have, such as the ids of calls and the
order of roles, are by the words of its refusals. It answers without earlier thoughts too; the fake
wants them, each before its calls.
"""

from __future__ import annotations

import itertools
import re
from typing import Annotated, Any, Literal

from pydantic import Field

from tests.support.providers.openai_chat_fake import (
    check_results_follow_calls,
    count_chat_rounds,
    list_pieces,
    write_chat_answer,
)
from tests.support.providers.provider_dialogue import (
    ANSWERS,
    Body,
    ProviderFake,
    ScriptedAnswer,
    require,
    write_json_refusal,
)
from tests.support.providers.published_schema import WireModel, check_model
from tests.support.servers.model_behaviours import ModelBehaviour, RawFrames

_DATA_URL = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+")


class TextChunk(WireModel):
    type: Literal["text"]
    text: str


class ImageUrl(WireModel):
    url: str
    detail: Literal["low", "auto", "high"] | None = None


class ImageChunk(WireModel):
    type: Literal["image_url"]
    image_url: ImageUrl | str


class ReferenceChunk(WireModel):
    type: Literal["reference"]
    reference_ids: list[int | str]


class DocumentChunk(WireModel):
    type: Literal["document_url"]
    document_url: str
    document_name: str | None = None


class FileChunk(WireModel):
    type: Literal["file"]
    file_id: str


class AudioChunk(WireModel):
    type: Literal["input_audio"]
    input_audio: str


class ThinkChunk(WireModel):
    type: Literal["thinking"]
    thinking: list[TextChunk | ReferenceChunk]
    signature: str | None = None
    closed: bool = True


Chunk = (
    TextChunk | ImageChunk | DocumentChunk | FileChunk | AudioChunk | ReferenceChunk | ThinkChunk
)


class FunctionCall(WireModel):
    name: str
    arguments: str | dict[str, Any]


class ToolCall(WireModel):
    id: Annotated[str, Field(pattern=r"^[a-zA-Z0-9]{9}$")]
    type: Literal["function"] = "function"
    function: FunctionCall
    index: int = 0


class SystemMessage(WireModel):
    role: Literal["system"]
    content: str | list[TextChunk | ThinkChunk]


class UserMessage(WireModel):
    role: Literal["user"]
    content: str | list[Chunk] | None


class AssistantMessage(WireModel):
    role: Literal["assistant"]
    content: str | list[Chunk] | None = None
    tool_calls: list[ToolCall] | None = None
    prefix: bool = False


class ToolMessage(WireModel):
    role: Literal["tool"]
    content: str | list[Chunk] | None
    tool_call_id: str | None = None
    name: str | None = None


class Function(WireModel):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]
    description: str = ""
    strict: bool = False
    parameters: dict[str, Any]


class Tool(WireModel):
    type: Literal["function"]
    function: Function


class FunctionName(WireModel):
    name: str


class ToolChoice(WireModel):
    type: Literal["function"] = "function"
    function: FunctionName


class JsonSchema(WireModel):
    name: str
    schema_definition: Annotated[dict[str, Any], Field(alias="schema")]
    description: str | None = None
    strict: bool = False


class ResponseFormat(WireModel):
    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: JsonSchema | None = None


class ChatCompletionRequest(WireModel):
    model: str
    messages: list[
        Annotated[
            SystemMessage | UserMessage | AssistantMessage | ToolMessage,
            Field(discriminator="role"),
        ]
    ]
    stream: Literal[True]
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: str | list[str] | None = None
    random_seed: int | None = None
    response_format: ResponseFormat | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | Literal["auto", "none", "any", "required"] = "auto"
    presence_penalty: float = 0
    frequency_penalty: float = 0
    parallel_tool_calls: bool = True
    prompt_mode: Literal["reasoning"] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = (
        None
    )
    metadata: dict[str, Any] | None = None
    prompt_cache_key: str | None = None
    n: int | None = None
    safe_prompt: bool = False


class MistralFake(ProviderFake):
    """A reasoning model of Mistral, which thinks in parts of its content."""

    name = "mistral"
    model = "mistral/magistral-medium-latest"
    reads = frozenset({"image"})

    path = "/v1/chat/completions"

    def list_variables(self, root: str) -> dict[str, str]:
        return {"MISTRAL_AZURE_API_BASE": f"{root}/v1", "MISTRAL_API_KEY": "mk"}

    def check_request(self, body: Body) -> None:
        check_model(ChatCompletionRequest, body)
        messages: list[dict[str, Any]] = body["messages"]
        roles = [each["role"] for each in messages]
        check_results_follow_calls(messages)
        self._check_thoughts(messages)
        pairs = list(itertools.pairwise(roles))
        require(roles[-1] in {"user", "tool"}, "Expected last role User or Tool for serving")
        for message in messages:
            says = message.get("content") or message.get("tool_calls")
            require(says or message["role"] != "assistant", "must have content or tool_calls")
        for before, after in pairs:
            is_wrong = after == "system" and before != "system"
            is_wrong = is_wrong or (before, after) == ("tool", "user")
            require(not is_wrong, f"Unexpected role '{after}' after role '{before}'")
        for message in messages:
            for chunk in list_pieces(message):
                if chunk["type"] == "image_url":
                    image = chunk["image_url"]
                    url = image if isinstance(image, str) else image["url"]
                    require(_DATA_URL.fullmatch(url), "Image could not be loaded")
                require(chunk["type"] != "input_audio", "Audio input is not enabled for this model")

    def _check_thoughts(self, messages: list[dict[str, Any]]) -> None:
        calls = [each for each in messages if each.get("tool_calls")]
        for message, answer in zip(calls, ANSWERS, strict=False):
            thinking = [{"type": "text", "text": answer.thought}]
            sent = [each.get("thinking") for each in list_pieces(message)]
            require(sent[:1] == [thinking], "a call has no thought")

    def count_rounds(self, body: Body) -> int | None:
        return count_chat_rounds(body["messages"])

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        thinking = [{"type": "text", "text": answer.thought}]
        return write_chat_answer(answer, {"content": [{"type": "thinking", "thinking": thinking}]})

    def write_refusal(self, detail: str) -> ModelBehaviour:
        refused = {"object": "error", "message": detail, "type": "invalid_request_error"}
        return write_json_refusal({**refused, "param": None, "code": "3230"})
