"""Estimated tokens of an attempt for which the provider reports none.

The estimate is four characters a token, rounded up, the same for every model. Pictures, recordings
and files count as their manifest says.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from turnlog.services.worker.model.model_types import (
    ModelRequest,
    ModelToolCall,
    ModelUsage,
    convert_to_plain,
)

CHARACTERS_PER_TOKEN = 4


def estimate_usage(
    request: ModelRequest, text: str, tool_calls: Sequence[ModelToolCall]
) -> ModelUsage:
    """Return an estimate of what was sent and received."""
    tools = json.dumps(convert_to_plain(request.tools), ensure_ascii=False) if request.tools else ""
    sent = len(tools) + sum(_count_characters(message) for message in request.messages)
    called = sum(len(call.name) + len(call.arguments) for call in tool_calls)
    return ModelUsage(
        request.media_tokens + _convert_to_tokens(sent), _convert_to_tokens(len(text) + called)
    )


def _count_characters(value: object) -> int:
    """Count the characters of every text in a message, role included, in place of the format."""
    match value:
        case str():
            return len(value)
        case {"type": "image_url" | "input_audio" | "image" | "audio" | "file"}:
            return 0
        case Mapping():
            return sum(map(_count_characters, cast("Mapping[str, object]", value).values()))
        case list() | tuple():
            return sum(map(_count_characters, cast("Sequence[object]", value)))
        case _:
            return 0


def _convert_to_tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)
