from __future__ import annotations

from typing import Final

ALLOWED_MODEL_PARAMETERS: Final = frozenset(
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
"""Model parameters that a blueprint may set; all others belong to the operator.

litellm takes keys, addresses and headers as parameters too. Only these names are accepted, so no
secret can get into a pinned blueprint.
"""
