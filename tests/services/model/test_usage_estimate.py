"""Usage where the provider reports none."""

from __future__ import annotations

from types import MappingProxyType

from turnlog.services.worker.model.model_types import (
    ModelRequest,
    ModelToolCall,
    ModelUsage,
)
from turnlog.services.worker.model.usage_estimate import estimate_usage

ASKED = ModelRequest(model="openai/heron", messages=({"role": "user", "content": "eleven char"},))


def test_estimated_usage_counts_four_characters_per_token_rounded_up() -> None:
    assert estimate_usage(ASKED, "nine char", ()) == ModelUsage(4, 3)


def test_estimated_usage_includes_message_parts_tools_and_tool_calls() -> None:
    parts = ({"type": "text", "text": "x" * 32}, {"type": "text", "text": "y"})
    nothing: dict[str, object] = {}
    tool = MappingProxyType({"name": "look", "parameters": MappingProxyType(nothing)})
    request = ModelRequest(
        model="openai/heron", messages=({"role": "user", "content": parts},), tools=(tool,)
    )
    call = ModelToolCall("call_0", "look", '{"where": 1}')
    # user + text + text + 33 characters, and the 37 of the tools' JSON; 16 of the call
    estimated = estimate_usage(request, "", [call])
    assert estimated == ModelUsage(input_tokens=21, output_tokens=4)
