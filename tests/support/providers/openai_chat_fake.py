"""OpenAI's Chat Completions, checked against the types of the `openai` client library.

Source: the installed `openai`, 2.54.0 or later. What its types leave open, such as the names of
tools and the media that a model reads, is by the words of the service's refusals.
"""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Any, cast

from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from tests.support.providers.provider_dialogue import (
    ANSWERS,
    Body,
    ProviderFake,
    ScriptedAnswer,
    require,
    write_events,
)
from tests.support.providers.published_schema import check_typed_dict
from tests.support.servers.model_behaviours import RawFrames

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class OpenAIChatFake(ProviderFake):
    """A reasoning model of OpenAI: it keeps its thoughts, and takes pictures of users only."""

    name = "openai chat"
    model = "openai/gpt-5-mini"
    adapters = ("litellm", "direct")
    reads = frozenset({"image", "file"})
    thoughts_on_record = False

    path = "/v1/chat/completions"

    def list_variables(self, root: str) -> dict[str, str]:
        return {"OPENAI_API_BASE": f"{root}/v1", "OPENAI_API_KEY": "sk-fake"}

    def check_request(self, body: Body) -> None:
        check_typed_dict(CompletionCreateParamsStreaming, body)
        check_tool_names(body)
        check_results_follow_calls(body["messages"])
        check_media_bytes(body["messages"])
        require("reasoning_effort" in body, "thinking is not on")
        for message in body["messages"]:
            for piece in list_pieces(message):
                kind, role = piece["type"], message["role"]
                require(kind != "input_audio", "This model does not support audio inputs.")
                is_wrong = kind == "image_url" and role != "user"
                require(not is_wrong, "Image URLs are only allowed for messages with role 'user'")

    def count_rounds(self, body: Body) -> int | None:
        return count_chat_rounds(body["messages"])

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        return write_chat_answer(answer, {})


def list_pieces(message: Body) -> list[dict[str, Any]]:
    """Return the parts of a message's content; none if it is a text."""
    content = message.get("content")
    return cast("list[dict[str, Any]]", content) if isinstance(content, list) else []


def read_text(message: Body) -> str:
    """Return the text of a message, joined from the parts of its content."""
    content = message.get("content")
    pieces = [each["text"] for each in list_pieces(message) if each["type"] == "text"]
    return content if isinstance(content, str) else "".join(pieces)


def check_tool_names(body: Body) -> None:
    for tool in body.get("tools", ()):
        name = tool["function"]["name"]
        require(_TOOL_NAME.fullmatch(name), f"tools.function.name: {name!r}")


def check_results_follow_calls(messages: list[dict[str, Any]]) -> None:
    """Refuse calls that are not followed by a result each, before any other message."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            require(message["tool_call_id"] in waiting, "a result follows no call")
            waiting.discard(message["tool_call_id"])
            continue
        require(not waiting, f"these calls have no result: {waiting}")
        waiting = {each["id"] for each in message.get("tool_calls") or ()}
    require(not waiting, f"these calls have no result: {waiting}")


def check_media_bytes(messages: list[dict[str, Any]]) -> None:
    """Refuse media whose bytes are no base64 of the type that they say."""
    for message in messages:
        for piece in list_pieces(message):
            match piece:
                case {"type": "text", "text": str(text)}:
                    require(text, "a text is empty")
                case {"type": "image_url", "image_url": {"url": str(url)}}:
                    require(url.startswith("data:image/"), "an image has no data URL")
                    require(b64decode(url.partition(",")[2], validate=True), "an image is empty")
                case {"type": "file", "file": {"filename": str(), "file_data": str(url)}}:
                    require(url.startswith("data:application/pdf;base64,"), "a file is no PDF")
                case {"type": "input_audio", "input_audio": {"data": str(data)}}:
                    require(b64decode(data, validate=True), "a recording is empty")
                case _:
                    require(condition=False, detail=f"Invalid value: {piece['type']!r}")


def count_chat_rounds(messages: list[dict[str, Any]]) -> int | None:
    """Return how many rounds of results follow the question; None in a later turn."""
    if any(
        each["role"] == "assistant" and ANSWERS[-1].text in read_text(each) for each in messages
    ):
        return None
    return sum(1 for each in messages if each.get("tool_calls"))


def write_chat_answer(answer: ScriptedAnswer, thought: Body) -> RawFrames:
    """Return the chunks of an answer; `thought` are the fields that have what was thought."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None, **thought}]
    deltas += [{"content": answer.text}] if answer.text else []
    for index, call in enumerate(answer.calls):
        function = {"name": call.tool, "arguments": call.written}
        piece: dict[str, Any] = {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": function,
        }
        deltas.append({"tool_calls": [piece]})
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": each, "finish_reason": None} for each in deltas
    ]
    finish = "tool_calls" if answer.calls else "stop"
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    base: dict[str, Any] = {
        "id": "chat-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "heron",
    }
    usage = {
        "prompt_tokens": 90,
        "completion_tokens": 20,
        "total_tokens": 110,
        "completion_tokens_details": {"reasoning_tokens": 8},
    }
    chunks: list[dict[str, Any]] = [{**base, "choices": [each]} for each in choices]
    chunks.append({**base, "choices": [], "usage": usage})
    return write_events(*chunks, end="data: [DONE]\n\n")
