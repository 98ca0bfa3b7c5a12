"""Messages of tool rounds, rebuilt part by part: calls, their results, and what was reasoned.

What was reasoned before an earlier reply is added to the message of that reply in the same way.

A bundle's `verify.py` has this module in it, so it needs nothing but Python's standard library.
"""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]

ROUND_ROLES = {"tool", "tool_call", "reasoning"}
PARTS_BEFORE_TEXT = "parts before the text"  # No name of a provider's field has blanks


def add_round_part(messages: list[Message], part: Message, event: Message, text: str) -> None:
    """Add a tool call, or what was reasoned, to its message, or the result of one as a message."""
    if part["role"] == "tool":
        messages.append({"role": "tool", "content": text, "tool_call_id": event["id"]})
        return
    if part["message"] == len(messages):
        messages.append({"role": "assistant", "content": ""})
    place = int(part["message"])
    message = messages[place]
    if part["role"] == "tool_call":
        function = {"name": part.get("name") or event.get("alias") or event["tool"]}
        function["arguments"] = text or "{}"
        called = {"id": event["id"], "type": "function", "function": function}
        message["content"] = message["content"] or None
        message.setdefault("tool_calls", []).append(called)
    elif "tool" in event:
        message["tool_calls"][-1] = {**json.loads(text), **message["tool_calls"][-1]}
    else:
        fields = json.loads(text)
        message[PARTS_BEFORE_TEXT] = fields.pop("content", None)
        messages[place] = {**fields, **message}


def place_reasoned_parts(messages: list[Message]) -> None:
    """Put what was reasoned as parts of a message's content before its text."""
    for message in messages:
        parts, text = message.pop(PARTS_BEFORE_TEXT, None), message["content"]
        if parts is not None:
            message["content"] = [*parts, *([{"type": "text", "text": text}] if text else [])]
