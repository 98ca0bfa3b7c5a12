"""Tools a model is offered with a prompt: the one that ends the phase, and those of servers.

A tool of a server is a blob that the session was pinned to, so a prompt refers to it instead of
holding it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt
from turnlog.events.manifest import FromBlob, FromBlueprint, Part
from turnlog.events.tool import ToolPin, ToolsSnapshotted
from turnlog.projections.blueprint.layer import PromptsLayer, ToolsLayer
from turnlog.projections.blueprint.phases import BY_PHASE, TRANSITION
from turnlog.projections.session.programs import step_of
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.counting import Counting
from turnlog.projections.window.material import Material
from turnlog.projections.window.request import canonical

_TOLD: Final = (ToolsLayer, PromptsLayer)

Tool = dict[str, JsonValue]
"""A tool as OpenAI's protocol spells it, which litellm translates for others."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A tool beside a prompt, and where it is from."""

    tool: Tool
    name: str
    text: str
    """The tool as it is counted."""
    source: FromBlob | FromBlueprint

    def part(self, counting: Counting) -> Part:
        """Give it as the manifest has it."""
        return Part(
            layer=self.name,
            component="tools_context",
            source=self.source,
            role="tools",
            characters=len(self.text),
            tokens=counting.count(self.text),
        )


def offered_tools(
    material: Material, state: SessionState, kind: str, blobs: Mapping[Digest, str]
) -> tuple[Offered, ...]:
    """Give the tools of a call; raises `Corrupt` where one was not fetched."""
    ending = tuple(_ending(material, state, kind))
    return (*ending, *(_pinned(n, pin, blobs) for n, pin in pinned_tools(material, state, kind)))


def pinned_tools(
    material: Material, state: SessionState, kind: str
) -> Iterator[tuple[str, ToolPin]]:
    """Give the tools of servers that a call offers, by the names a model knows them by."""
    words, taken = material.blueprint.calls[kind].tools, tools_of(material, state)
    if taken is None or not {"all", "for_step"} & set(words):
        return
    step = step_of(state.open) if "all" not in words else None
    for name, pin in taken.tools.items():
        if step is None or not step.tools or name in step.tools:
            yield name, pin


def takes_tools(material: Material, state: SessionState) -> bool:
    """Tell whether the session's profile has calls that offer or tell of tools of servers."""
    blueprint = material.blueprint
    profile = blueprint.profiles[state.profile]
    if profile.tools == "none":
        return False
    by_phase = blueprint.phases.calls if blueprint.phases else {}
    named = by_phase.values() if profile.call == BY_PHASE else profile.calls.values()
    layers = {layer for kind in named for layer in blueprint.calls[kind].layers}
    told = (blueprint.layers.get(layer) for layer in layers)
    return profile.program == "tools" or any(isinstance(each, _TOLD) for each in told)


def tools_of(material: Material, state: SessionState) -> ToolsSnapshotted | None:
    """Give what the session's profile is pinned to; none where it is to have nothing of it."""
    profile = material.blueprint.profiles.get(state.profile)
    return None if profile and profile.tools == "none" else state.tools.get(state.profile)


def tool_name(tool: Tool) -> str:
    """Give the name of a tool."""
    function = tool.get("function")
    return str(function.get("name")) if isinstance(function, dict) else ""


def read_tool(text: str) -> Tool:
    """Read a tool as it was stored."""
    found: JsonValue = json.loads(text)
    return found if isinstance(found, dict) else {}


def _pinned(name: str, pin: ToolPin, blobs: Mapping[Digest, str]) -> Offered:
    text = blobs.get(pin.digest)
    if text is None:
        raise Corrupt(f"tool {name}", f"blob {pin.digest} was not fetched")
    source = FromBlob(digest=pin.digest, path=f"{pin.server}/{pin.tool}")
    return Offered(read_tool(text), name, text, source)


def _ending(material: Material, state: SessionState, kind: str) -> Iterator[Offered]:
    """Offer to end the phase: nothing while it may not be left."""
    phases = material.phases
    if phases is None or TRANSITION not in material.blueprint.calls[kind].tools:
        return
    if signals := phases.offered(state.phase, state.exchanges):
        tool = _transition(signals)
        text = canonical(tool)
        source = FromBlueprint(text=text, of=("cartridge.phases",))
        yield Offered(tool, tool_name(tool), text, source)


def _transition(signals: tuple[str, ...]) -> Tool:
    signal: JsonValue = {
        "type": "string",
        "enum": list(signals),
        "description": "How the dialogue has gone.",
    }
    return {
        "type": "function",
        "function": {
            "name": TRANSITION,
            "description": "End this phase of the session, when its purpose is reached.",
            "parameters": {
                "type": "object",
                "properties": {"signal": signal},
                "required": ["signal"],
            },
        },
    }
