"""Usage where the provider reports none."""

from types import MappingProxyType

from turnlog.services.worker.model.estimate import account
from turnlog.services.worker.model.exchange import (
    Estimated,
    ModelRequest,
    Reported,
    ToolCall,
    Usage,
)

ASKED = ModelRequest("openai/heron", ({"role": "user", "content": "eleven char"},))


def test_what_the_provider_reports_is_taken_as_it_is() -> None:
    usage = Usage(input_tokens=1, output_tokens=2)
    assert account(usage, ASKED, "a much longer text than that") == Reported(usage)


def test_without_a_report_four_characters_are_a_token_rounded_up() -> None:
    assert account(None, ASKED, "nine char") == Estimated(Usage(4, 3))


def test_parts_tools_and_calls_are_counted_too() -> None:
    parts = ({"type": "text", "text": "x" * 32}, {"type": "text", "text": "y"})
    nothing: dict[str, object] = {}
    tool = MappingProxyType({"name": "look", "parameters": MappingProxyType(nothing)})
    asked = ModelRequest("openai/heron", ({"role": "user", "content": parts},), tools=(tool,))
    call = ToolCall("call_0", "look", '{"where": 1}')
    # user + text + text + 33 characters, and the 37 of the tools' JSON; 16 of the call
    estimated = account(None, asked, "", [call])
    assert estimated == Estimated(Usage(input_tokens=21, output_tokens=4))
