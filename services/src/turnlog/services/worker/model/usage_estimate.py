"""Estimated tokens of an attempt for which the provider reports none.

The estimate is four characters a token, rounded up, the same for every model. Its type marks it as
an estimate, so that it is never mistaken for a count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from turnlog.services.worker.model.model_types import (
    EstimatedUsage,
    ModelRequest,
    ModelToolCall,
    ModelUsage,
    ReportedUsage,
    convert_to_plain,
)

CHARACTERS_PER_TOKEN = 4


def estimate_usage(
    usage: ModelUsage | None,
    request: ModelRequest,
    text: str,
    tool_calls: Sequence[ModelToolCall] = (),
) -> ReportedUsage | EstimatedUsage:
    """Return the provider's count, or an estimate of what was sent and received."""
    if usage is not None:
        return ReportedUsage(usage)
    called = sum(len(call.name) + len(call.arguments) for call in tool_calls)
    return EstimatedUsage(
        ModelUsage(estimate_request_tokens(request), _convert_to_tokens(len(text) + called))
    )


def estimate_request_tokens(request: ModelRequest) -> int:
    tools = (
        len(json.dumps(convert_to_plain(request.tools), ensure_ascii=False)) if request.tools else 0
    )
    return _convert_to_tokens(
        tools + sum(_count_characters(message) for message in request.messages)
    )


def _count_characters(value: object) -> int:
    """Count the characters of every text in a message, role included, in place of the format."""
    match value:
        case str():
            return len(value)
        case Mapping():
            return sum(map(_count_characters, cast("Mapping[str, object]", value).values()))
        case list() | tuple():
            return sum(map(_count_characters, cast("Sequence[object]", value)))
        case _:
            return 0


def _convert_to_tokens(characters: int) -> int:
    return -(-characters // CHARACTERS_PER_TOKEN)
