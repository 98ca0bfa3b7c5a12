"""The tool by which a model ends a phase: its argument is a signal that the phase offers now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from turnlog.events.content import encode_canonical
from turnlog.events.model.manifest import BlueprintTextSource
from turnlog.projections.blueprint.schema.phase_specs import TRANSITION_TOOL
from turnlog.projections.prompt.sources.offered_tools import OfferedTool, ToolSchema, get_tool_name
from turnlog.projections.prompt.sources.session_material import SessionMaterial
from turnlog.projections.session.state import SessionState


def build_transition_tools(
    material: SessionMaterial, state: SessionState, kind: str
) -> Iterator[OfferedTool]:
    """Yield the tool that ends the phase, unless the phase may not end yet."""
    phases = material.phases
    if phases is None or TRANSITION_TOOL not in material.blueprint.calls[kind].tools:
        return
    if signals := phases.list_signals(state.phase, state.exchanges):
        tool = _build_transition_schema(
            {signal: phases.get_signal_meaning(state.phase, signal) for signal in signals}
        )
        text = encode_canonical(tool)
        source = BlueprintTextSource(text=text, of=("cartridge.phases",))
        yield OfferedTool(tool, get_tool_name(tool), text, source)


def _build_transition_schema(meanings: Mapping[str, str]) -> ToolSchema:
    """Return the tool with what each signal means, for those that have a meaning."""
    lines = [f"{signal}: {meaning}" for signal, meaning in meanings.items() if meaning]
    signal: JsonValue = {
        "type": "string",
        "enum": list(meanings),
        "description": "\n".join(["How the dialogue has gone.", *lines]),
    }
    return {
        "type": "function",
        "function": {
            "name": TRANSITION_TOOL,
            "description": "End this phase of the session, when its purpose is reached.",
            "parameters": {
                "type": "object",
                "properties": {"signal": signal},
                "required": ["signal"],
            },
        },
    }
