"""OpenAI's Responses, checked against the types of the `openai` client library.

Source: the installed `openai`, 2.54.0 or later. Reasoning items have `encrypted_content` without
being asked, and a summary only where `reasoning.summary` asks for it. litellm bridges a chat
request to it for a model such as `openai/responses/gpt-5-mini`.
"""

from __future__ import annotations

import itertools
from base64 import b64decode
from typing import Any, ClassVar

from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from tests.support.providers.openai_chat_fake import list_pieces
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
from turnlog.services.platform.process_settings import ModelAdapter


class OpenAIResponsesFake(ProviderFake):
    """Wants the reasoning item of a round back before its calls; nothing asks for its summary."""

    name = "openai responses"
    model = "openai/responses/gpt-5-mini"
    adapters: ClassVar[tuple[ModelAdapter, ...]] = ("litellm", "direct")
    reads = frozenset({"image", "file"})
    thoughts_on_record = False
    thoughts_signed = True

    path = "/v1/responses"

    def list_variables(self, root: str) -> dict[str, str]:
        return {"OPENAI_API_BASE": f"{root}/v1", "OPENAI_API_KEY": "sk-fake"}

    def check_request(self, body: Body) -> None:
        check_typed_dict(ResponseCreateParamsStreaming, complete_replies(body))
        require("reasoning" in body, "thinking is not on")
        items: list[dict[str, Any]] = body["input"]
        rounds, waiting = 0, set[str]()
        for before, item in zip([None, *items], items, strict=False):
            kind = item.get("type", "message")
            if kind == "function_call":
                waiting.add(item["call_id"])
            if kind == "function_call" and before and before.get("type") != "function_call":
                self._check_reasoning(before, ANSWERS[rounds])
                rounds += 1
            if kind == "function_call_output":
                require(item["call_id"] in waiting, "No tool call found for function call output")
                waiting.discard(item["call_id"])
            if kind == "message":
                require(not waiting, f"No tool output found for function call {waiting}")
                self._check_content(item)
        require(not waiting, f"No tool output found for function call {waiting}")

    def _check_reasoning(self, item: dict[str, Any], answer: ScriptedAnswer) -> None:
        detail = "'function_call' was provided without its required 'reasoning' item"
        require(item.get("type") == "reasoning", detail)
        require(item.get("id") == f"rs_{answer.signature.strip('=')}", detail)
        require(item.get("encrypted_content") == answer.signature, detail)

    def _check_content(self, item: dict[str, Any]) -> None:
        for piece in list_pieces(item):
            match piece["type"]:
                case "input_image" | "input_file":
                    data = piece.get("image_url") or piece["file_data"]
                    require(b64decode(data.partition(",")[2], validate=True), "empty data")
                case kind:
                    require(kind in {"input_text", "output_text"}, f"Invalid value: {kind!r}")

    def count_rounds(self, body: Body) -> int | None:
        if "It is a heron." in str(body["input"]):
            return None
        items: list[dict[str, Any]] = [{}, *body["input"]]
        pairs = itertools.pairwise(items)
        return sum(1 for a, b in pairs if b.get("type") == "function_call" != a.get("type"))

    def write_answer(self, answer: ScriptedAnswer) -> RawFrames:
        reasoning: dict[str, Any] = {"type": "reasoning", "id": f"rs_{answer.signature.strip('=')}"}
        reasoning |= {"summary": [], "encrypted_content": answer.signature}
        items: list[dict[str, Any]] = [reasoning]
        if answer.text:
            content: list[dict[str, Any]] = [
                {"type": "output_text", "text": answer.text, "annotations": []}
            ]
            said: dict[str, Any] = {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "content": content,
            }
            items.append({**said, "status": "completed"})
        items += [
            {
                "type": "function_call",
                "id": f"fc_{call.id}",
                "call_id": call.id,
                "name": call.tool,
                "arguments": call.written,
                "status": "completed",
            }
            for call in answer.calls
        ]
        usage: dict[str, Any] = {"input_tokens": 90, "output_tokens": 20, "total_tokens": 110}
        details = {"input_tokens_details": {"cached_tokens": 0}}
        usage |= {**details, "output_tokens_details": {"reasoning_tokens": 8}}
        base: dict[str, Any] = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": "gpt-5-mini",
        }
        base |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None}
        begun: dict[str, Any] = {**base, "status": "in_progress", "output": []}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        for index, item in enumerate(items):
            events += _write_item(index, item)
        done = {**base, "status": "completed", "output": items, "usage": usage}
        events.append({"type": "response.completed", "response": done})
        numbered = [{**each, "sequence_number": n} for n, each in enumerate(events)]
        return write_events(*numbered, named=True)


class BridgedFake(OpenAIResponsesFake):
    """A newer model, whose tools with thinking on OpenAI takes in Responses only."""

    name = "openai bridged"
    model = "openai/gpt-5.4"
    adapters = ("litellm",)


def complete_replies(body: Body) -> Body:
    """Return a request whose replies have what the types require and the service does not."""
    required = {"id": "msg_0", "status": "completed"}
    items: list[dict[str, Any]] = [
        {**required, **item, "content": [{"annotations": [], **each} for each in item["content"]]}
        if item.get("role") == "assistant"
        else item
        for item in body["input"]
    ]
    return {**body, "input": items}


def _write_item(index: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of one item: its begin, its pieces if it has any, and its end."""
    place = {"output_index": index, "item_id": item["id"]}
    pieces: list[dict[str, Any]] = []
    begun = item
    match item["type"]:
        case "message":
            kind, text = "response.output_text.delta", item["content"][0]["text"]
            pieces = [{"type": kind, **place, "content_index": 0, "delta": text}]
            begun = {**item, "content": list[Any]()}
        case "function_call":
            kind, text = "response.function_call_arguments.delta", item["arguments"]
            pieces = [{"type": kind, **place, "delta": text}]
            begun = {**item, "arguments": ""}
        case _:
            pass
    return [
        {"type": "response.output_item.added", "output_index": index, "item": begun},
        *pieces,
        {"type": "response.output_item.done", "output_index": index, "item": item},
    ]
