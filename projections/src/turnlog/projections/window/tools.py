"""Tools a model is offered. There is one so far: ending the phase, where it may be ended."""

from __future__ import annotations

from pydantic import JsonValue

from turnlog.projections.session.phasing import TRANSITION
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.material import Material

Tool = dict[str, JsonValue]
"""A tool as OpenAI's protocol spells it, which litellm translates for others."""


def offered_tools(material: Material, state: SessionState) -> tuple[Tool, ...]:
    """Give the tools of the next call: none while the phase may not be left."""
    phases = material.phases
    signals = phases.offered(state.phase, state.exchanges) if phases else ()
    return (_transition(signals),) if signals else ()


def tool_name(tool: Tool) -> str:
    """Give the name of a tool."""
    function = tool.get("function")
    return str(function.get("name")) if isinstance(function, dict) else ""


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
