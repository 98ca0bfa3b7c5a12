"""The tools that a model is offered: their format, and the part that each is in a manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import encode_canonical
from turnlog.events.model.manifest import (
    BlobSource,
    BlueprintTextSource,
    Manifest,
    PromptPart,
    ToolNameRule,
)
from turnlog.projections.blueprint.schema.layer_specs import TOOLS_COMPONENT
from turnlog.projections.blueprint.token_counters import TokenCounter
from turnlog.projections.tools.inlined_references import inline_references
from turnlog.projections.tools.tool_aliases import choose_sent_name

LEAVE_OUT_TOOL_STEP: Final = "leave_out_tool"
"""The step, and the rule of a part, by which a tool without room is not offered."""

ToolSchema = dict[str, JsonValue]
"""A tool in OpenAI's format, which litellm translates for other providers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool that is offered with a prompt, and its source."""

    tool: ToolSchema
    name: str
    text: str
    """The text that is counted."""
    source: BlobSource | BlueprintTextSource
    sent_name: str | None = None
    """The name that the server is sent in place of that of the definition."""
    pinned_name: str | None = None
    """The name of the definition, where the server is sent another one."""

    def build_part(self, counting: TokenCounter) -> PromptPart:
        """Return its part of the manifest."""
        return PromptPart(
            layer=self.name,
            component=TOOLS_COMPONENT,
            source=self.source,
            role="tools",
            name=self.sent_name,
            characters=len(self.text),
            tokens=counting.count_tokens(self.text),
        )

    def inline_references(self) -> OfferedTool:
        """Return the tool as it is sent to servers that refuse references in schemas."""
        tool = inline_references(self.tool)
        if tool == self.tool:
            return self
        return replace(self, tool=tool, text=encode_canonical(tool))

    def choose_name(self, rule: ToolNameRule | None) -> OfferedTool:
        """Return the tool with the name that a server takes."""
        known = get_tool_name(self.tool)
        sent = choose_sent_name(rule, self.name, known)
        if sent == known:
            return self
        tool = rename_tool(self.tool, sent)
        text = encode_canonical(tool)
        return replace(self, tool=tool, text=text, sent_name=sent, pinned_name=known)


def rename_chosen_tool(choice: JsonValue, tools: Sequence[OfferedTool]) -> JsonValue:
    """Return a `tool_choice` that names the tool as the server is sent it.

    A blueprint names it as its server of tools does, or by the name that is pinned.
    """
    if not isinstance(choice, dict):
        return choice
    named = get_tool_name(choice)
    renamed = (each.sent_name for each in tools if named in {each.name, each.pinned_name})
    sent = next(filter(None, renamed), None)
    return rename_tool(choice, sent) if sent else choice


def rename_tool(tool: ToolSchema, name: str) -> ToolSchema:
    """Return a tool with another name in its definition."""
    function = tool.get("function")
    return {**tool, "function": {**function, "name": name}} if isinstance(function, dict) else tool


def list_own_names(manifest: Manifest | None) -> Mapping[str, str]:
    """Return the own names of the tools whose names in the request are others, by the latter."""
    offered = (part for part in (manifest.parts if manifest else ()) if part.role == "tools")
    return {part.name: part.layer for part in offered if part.name is not None}


def get_tool_name(tool: ToolSchema) -> str:
    function = tool.get("function")
    return str(function.get("name")) if isinstance(function, dict) else ""


def parse_tool(text: str) -> ToolSchema:
    """Parse a stored tool."""
    found: JsonValue = json.loads(text)
    return found if isinstance(found, dict) else {}
