"""Anthropic's Messages API, by models of its published types.

Source: `anthropic` 2.14.0, `MessageCreateParamsStreaming` and what it names; of blocks and tools,
those that the server runs itself are left out. From its documentation (*Thinking*, *Tool use*,
*Prompt caching*): blocks of thinking come back unmodified before the calls, manual thinking takes
no forced tool and no other temperature, the results of calls are first in the message after them,
and there are four cache marks at most.
"""

from __future__ import annotations

import itertools
import re
from base64 import b64decode
from typing import Annotated, Any, Literal

from pydantic import Field

from tests.support.providers.openai_chat_fake import list_pieces
from tests.support.providers.provider_dialogue import (
    ANSWERS,
    Body,
    ProviderFake,
    ScriptedAnswer,
    require,
    write_events,
    write_json_refusal,
)
from tests.support.providers.published_schema import WireModel, check_model
from tests.support.servers.model_behaviours import ModelBehaviour, RawFrames

_MAX_MARKS = 4


class CacheControl(WireModel):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] = "5m"


class TextBlock(WireModel):
    type: Literal["text"]
    text: Annotated[str, Field(pattern=r"\S")]
    cache_control: CacheControl | None = None


class ImageSource(WireModel):
    type: Literal["base64"]
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: str


class UrlSource(WireModel):
    type: Literal["url"]
    url: str


class ImageBlock(WireModel):
    type: Literal["image"]
    source: Annotated[ImageSource | UrlSource, Field(discriminator="type")]
    cache_control: CacheControl | None = None


class DocumentSource(WireModel):
    type: Literal["base64"]
    media_type: Literal["application/pdf"]
    data: str


class TextSource(WireModel):
    type: Literal["text"]
    media_type: Literal["text/plain"]
    data: str


class Citations(WireModel):
    enabled: bool = False


class DocumentBlock(WireModel):
    type: Literal["document"]
    source: Annotated[DocumentSource | TextSource | UrlSource, Field(discriminator="type")]
    citations: Citations | None = None
    title: str | None = None
    context: str | None = None
    cache_control: CacheControl | None = None


class ThinkingBlock(WireModel):
    type: Literal["thinking"]
    thinking: str
    signature: str


class RedactedThinkingBlock(WireModel):
    type: Literal["redacted_thinking"]
    data: str


class ToolUseBlock(WireModel):
    type: Literal["tool_use"]
    id: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$")]
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")]
    input: dict[str, Any]
    cache_control: CacheControl | None = None


class ToolResultBlock(WireModel):
    type: Literal["tool_result"]
    tool_use_id: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$")]
    content: str | list[TextBlock | ImageBlock | DocumentBlock] = ""
    is_error: bool = False
    cache_control: CacheControl | None = None


UserBlock = Annotated[
    TextBlock | ImageBlock | DocumentBlock | ToolResultBlock, Field(discriminator="type")
]

AssistantBlock = Annotated[
    TextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock, Field(discriminator="type")
]


class UserMessage(WireModel):
    role: Literal["user"]
    content: Annotated[str, Field(pattern=r"\S")] | Annotated[list[UserBlock], Field(min_length=1)]


class AssistantMessage(WireModel):
    role: Literal["assistant"]
    content: (
        Annotated[str, Field(pattern=r"\S")] | Annotated[list[AssistantBlock], Field(min_length=1)]
    )


class SystemMessage(WireModel):
    role: Literal["system"]
    content: Annotated[str, Field(pattern=r"\S")] | list[TextBlock]


class InputSchema(WireModel):
    """The schema of a tool's input; the others of JSON Schema's members are taken."""

    model_config = {**WireModel.model_config, "extra": "allow"}

    type: Literal["object"]
    properties: dict[str, Any] | None = None
    required: list[str] | None = None


class ToolSchema(WireModel):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")]
    description: str = ""
    input_schema: InputSchema
    strict: bool = False
    type: Literal["custom"] | None = None
    cache_control: CacheControl | None = None


class Thinking(WireModel):
    type: Literal["enabled"]
    budget_tokens: Annotated[int, Field(ge=1024)]
    display: Literal["summarized", "omitted"] | None = None


class ToolChoice(WireModel):
    """What manual thinking takes: a tool cannot be forced."""

    type: Literal["auto", "none"]
    disable_parallel_tool_use: bool = False


class Metadata(WireModel):
    user_id: str | None = None


class MessagesRequest(WireModel):
    model: str
    max_tokens: Annotated[int, Field(ge=1)]
    messages: Annotated[
        list[
            Annotated[UserMessage | AssistantMessage | SystemMessage, Field(discriminator="role")]
        ],
        Field(min_length=1),
    ]
    system: str | list[TextBlock] = ""
    tools: list[ToolSchema] = []
    tool_choice: ToolChoice | None = None
    metadata: Metadata | None = None
    service_tier: Literal["auto", "standard_only"] = "auto"
    cache_control: CacheControl | None = None
    thinking: Thinking
    stream: Literal[True]
    stop_sequences: list[str] = []
    temperature: Annotated[float, Field(ge=1, le=1)] = 1
    top_p: Annotated[float, Field(ge=0.95, le=1)] = 1


class AnthropicFake(ProviderFake):
    """Wants the thoughts of a turn's rounds back, each before its calls with its signature."""

    name = "anthropic"
    model = "anthropic/claude-sonnet-4-5"
    reads = frozenset({"image", "file"})
    thoughts_signed = True

    path = "/v1/messages"

    def list_variables(self, root: str) -> dict[str, str]:
        return {"ANTHROPIC_API_BASE": root, "ANTHROPIC_API_KEY": "sk-ant"}

    def check_request(self, body: Body) -> None:
        check_model(MessagesRequest, body)
        messages = combine_turns(body["messages"])
        require(body["thinking"]["budget_tokens"] < body["max_tokens"], "the budget is too large")
        require(str(body).count("'ephemeral'") <= _MAX_MARKS, "more than 4 cache marks")
        require(messages[0]["role"] == "user", "the first message is not the user's")
        for before, message in zip([None, *messages], messages, strict=False):
            self._check_blocks(before, message)
        require(not find_blocks(messages[-1], "tool_use"), "`tool_use` without `tool_result`")
        calls = [each for each in messages if find_blocks(each, "tool_use")]
        for number, message in enumerate(calls):
            first = message["content"][0]
            require(first["type"] == "thinking", "Expected `thinking`, but found `tool_use`")
            expected = ANSWERS[number]
            require(
                (first["thinking"], first["signature"]) == (expected.thought, expected.signature),
                "Invalid `signature` in `thinking` block",
            )

    def _check_blocks(self, before: dict[str, Any] | None, message: dict[str, Any]) -> None:
        asked = [each["id"] for each in find_blocks(before, "tool_use")] if before else []
        results = [each["tool_use_id"] for each in find_blocks(message, "tool_result")]
        require(sorted(asked) == sorted(results), "`tool_use` without `tool_result` after it")
        types = [each["type"] for each in list_pieces(message)]
        require(types[: len(results)] == ["tool_result"] * len(results), "results come first")
        within = [list_pieces(each) for each in find_blocks(message, "tool_result")]
        for block in itertools.chain(list_pieces(message), *within):
            if block["type"] not in {"image", "document"}:
                continue
            require(b64decode(block["source"]["data"], validate=True), "empty source")

    def count_rounds(self, body: Body) -> int | None:
        if re.search(r"It is a heron\.", str(body["messages"])):
            return None
        return sum(1 for each in body["messages"] if find_blocks(each, "tool_use"))

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        usage = {"input_tokens": 90, "output_tokens": 1}
        start: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant"}
        start["model"] = "claude"
        start |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        thinking: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = [
            (
                thinking,
                [
                    {"type": "thinking_delta", "thinking": answer.thought[:5]},
                    {"type": "thinking_delta", "thinking": answer.thought[5:]},
                    {"type": "signature_delta", "signature": answer.signature},
                ],
            )
        ]
        if answer.text:
            delta = {"type": "text_delta", "text": answer.text}
            blocks.append(({"type": "text", "text": ""}, [delta]))
        for call in answer.calls:
            block: dict[str, Any] = {
                "type": "tool_use",
                "id": call.id,
                "name": call.tool,
                "input": {},
            }
            delta = {"type": "input_json_delta", "partial_json": call.written}
            blocks.append((block, [delta]))
        events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
        for index, (block, deltas) in enumerate(blocks):
            begin = {"type": "content_block_start", "index": index, "content_block": block}
            pieces = ({"type": "content_block_delta", "index": index, "delta": d} for d in deltas)
            events += [begin, *pieces, {"type": "content_block_stop", "index": index}]
        reason = "tool_use" if answer.calls else "end_turn"
        end = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}}
        events += [{**end, "usage": {"output_tokens": 20}}, {"type": "message_stop"}]
        return write_events(*events, named=True)

    def write_refusal(self, detail: str) -> ModelBehaviour:
        error = {"type": "invalid_request_error", "message": detail}
        return write_json_refusal({"type": "error", "error": error})


def combine_turns(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages as the service reads them: those of one role after another are one."""
    combined: list[dict[str, Any]] = []
    for message in messages:
        text = message["content"]
        blocks = [{"type": "text", "text": text}] if isinstance(text, str) else text
        if combined and combined[-1]["role"] == message["role"]:
            combined[-1]["content"] += blocks
        else:
            combined.append({"role": message["role"], "content": [*blocks]})
    return combined


def find_blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each for each in list_pieces(message) if each["type"] == kind]
