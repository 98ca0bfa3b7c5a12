"""What servers of each dialect refuse about the roles of messages, in the words of their templates.

Written from the rules that the servers state, and not from the code that follows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def find_role_fault(messages: Sequence[Mapping[str, Any]], roles: str) -> str | None:
    """Return why a server that takes messages in these roles refuses a request, or None."""
    if roles == "anywhere":
        return None
    if any(each["role"] == "system" for each in messages[1:]):
        return "System message must be at the beginning."
    return _find_parity_fault(messages) if roles == "alternating" else None


def _find_parity_fault(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what the templates of Gemma and Mistral raise.

    They count texts of the user and the assistant, and neither tool calls nor their results.
    """
    spoken = [
        each["role"]
        for each in messages
        if each["role"] in {"user", "assistant"} and not each.get("tool_calls")
    ]
    expected = ["user" if place % 2 == 0 else "assistant" for place in range(len(spoken))]
    if spoken != expected:
        return "Conversation roles must alternate user/assistant/user/assistant/..."
    return None
