"""Which parameters of a model a blueprint may set; all others belong to the operator."""

from __future__ import annotations

from typing import Final

PARAMETERS: Final = frozenset(
    {
        "frequency_penalty",
        "max_completion_tokens",
        "max_tokens",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "temperature",
        "tool_choice",
        "top_p",
    }
)
"""What a call may set of a model. Keys, addresses and headers go by the same door at litellm, so
nothing else is let through, and no secret comes to stand in a pinned blueprint."""
