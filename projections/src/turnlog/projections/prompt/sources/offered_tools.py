"""The tools that a model is offered: their format, and the part that each is in a manifest."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from pydantic import JsonValue

from turnlog.events.content import encode_canonical
from turnlog.events.model.manifest import BlobSource, BlueprintTextSource, PromptPart
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.tools.inlined_references import inline_references

ToolSchema = dict[str, JsonValue]
"""A tool in OpenAI's format, which litellm translates for other providers."""


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that is offered with a prompt, and its source."""

    tool: ToolSchema
    name: str
    text: str
    """The text that is counted."""
    source: BlobSource | BlueprintTextSource

    def build_part(self, counting: TokenCounter) -> PromptPart:
        """Return its part of the manifest."""
        return PromptPart(
            layer=self.name,
            component="tools_context",
            source=self.source,
            role="tools",
            characters=len(self.text),
            tokens=counting.count_tokens(self.text),
        )

    def inline_references(self) -> OfferedTool:
        """Return the tool as it is sent to servers that refuse references in schemas."""
        tool = inline_references(self.tool)
        if tool == self.tool:
            return self
        return replace(self, tool=tool, text=encode_canonical(tool))


def get_tool_name(tool: ToolSchema) -> str:
    function = tool.get("function")
    return str(function.get("name")) if isinstance(function, dict) else ""


def parse_tool(text: str) -> ToolSchema:
    """Parse a stored tool."""
    found: JsonValue = json.loads(text)
    return found if isinstance(found, dict) else {}
