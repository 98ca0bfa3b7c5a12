"""Anthropic's Messages API, by models of its published reference.

Source: the reference of `POST /v1/messages`, and the pages *Extended thinking* and *Tool use*.
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
    ttl: Literal["5m", "1h"] | None = None


class TextBlock(WireModel):
    type: Literal["text"]
    text: Annotated[str, Field(pattern=r"\S")]
    cache_control: CacheControl | None = None


class ImageSource(WireModel):
    type: Literal["base64"]
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
    data: str


class ImageBlock(WireModel):
    type: Literal["image"]
    source: ImageSource
    cache_control: CacheControl | None = None


class DocumentSource(WireModel):
    type: Literal["base64"]
    media_type: Literal["application/pdf"]
    data: str


class DocumentBlock(WireModel):
    type: Literal["document"]
    source: DocumentSource
    title: str | None = None
    context: str | None = None
    cache_control: CacheControl | None = None


class ThinkingBlock(WireModel):
    type: Literal["thinking"]
    thinking: str
    signature: str


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


Block = Annotated[
    TextBlock | ImageBlock | DocumentBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock,
    Field(discriminator="type"),
]


class Message(WireModel):
    role: Literal["user", "assistant"]
    content: str | list[Block]


class ToolSchema(WireModel):
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")]
    description: str | None = None
    input_schema: dict[str, Any]
    type: Literal["custom"] | None = None
    cache_control: CacheControl | None = None


class Thinking(WireModel):
    type: Literal["enabled"]
    budget_tokens: Annotated[int, Field(ge=1024)]


class MessagesRequest(WireModel):
    model: str
    max_tokens: Annotated[int, Field(ge=1)]
    messages: Annotated[list[Message], Field(min_length=1)]
    system: str | list[TextBlock] = ""
    tools: list[ToolSchema] = []
    tool_choice: dict[str, Any] | None = None
    thinking: Thinking
    stream: Literal[True]
    stop_sequences: list[str] = []
    temperature: float | None = None
    top_p: float | None = None


class AnthropicFake(ProviderFake):
    """Wants the thoughts of a turn's rounds back, each before its calls with its signature."""

    name = "anthropic"
    model = "anthropic/claude-sonnet-4-5"
    reads = frozenset({"image", "file"})

    path = "/v1/messages"

    def list_variables(self, root: str) -> dict[str, str]:
        return {"ANTHROPIC_API_BASE": root, "ANTHROPIC_API_KEY": "sk-ant"}

    def check_request(self, body: Body) -> None:
        check_model(MessagesRequest, body)
        messages: list[dict[str, Any]] = body["messages"]
        require(body["thinking"]["budget_tokens"] < body["max_tokens"], "the budget is too large")
        require(str(body).count("'ephemeral'") <= _MAX_MARKS, "more than 4 cache marks")
        roles = [each["role"] for each in messages]
        require(roles[0] == "user", "the first message is not the user's")
        require(all(a != b for a, b in itertools.pairwise(roles)), "roles must alternate")
        for before, message in zip([None, *messages], messages, strict=False):
            self._check_blocks(before, message)
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
        for block in (*find_blocks(message, "image"), *find_blocks(message, "document")):
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


def find_blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [each for each in list_pieces(message) if each["type"] == kind]
