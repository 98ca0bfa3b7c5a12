"""What a session's prompts are made from: blueprint, cartridge, memory policy, extensions.

A session is pinned to blobs by digest, so today's files play no part. Trim steps and vocabularies
come from installed packages and are passed in; one that is not installed is reported differently
from a missing blob. Dotted paths (`cartridge.`, `attributes.`, `session.phase`) lead to values; a
path that leads nowhere gives an empty value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from pydantic import JsonValue

from turnlog.projections.blueprint.asking import ReferencesSpec
from turnlog.projections.blueprint.cartridge import Cartridge
from turnlog.projections.blueprint.layer import CarryLayer, WhenContext
from turnlog.projections.blueprint.memory import MemoryPolicy
from turnlog.projections.blueprint.phases import BY_PHASE, PhaseGraph, build_phase_graph
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.programs import CallStage, get_call_stage
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.counting import TokenVocabulary
from turnlog.projections.window.pieces import ApplyRegisteredStep

SESSION_ONLY = "session_only"
"""The context level that every session has."""


# Without slots, for the cached property.
@dataclass(frozen=True)
class SessionMaterial:
    """What a session is pinned to, loaded."""

    blueprint: Blueprint
    cartridge: Cartridge = field(default_factory=dict[str, JsonValue])
    memory: MemoryPolicy | None = None
    registered_steps: Mapping[str, ApplyRegisteredStep] = field(default_factory=dict[str, ApplyRegisteredStep])
    """Trim steps of packages that the blueprint's ladders name."""
    vocabularies: Mapping[str, TokenVocabulary] = field(default_factory=dict[str, TokenVocabulary])
    """Vocabularies that the blueprint's budgets count with."""

    @cached_property
    def phases(self) -> PhaseGraph | None:
        """The phase graph, if the blueprint has one."""
        spec, layers = self.blueprint.phases, self.blueprint.layers.values()
        words = (layer.text for layer in layers if isinstance(layer, CarryLayer))
        drawn = self.cartridge.get("phases")
        return build_phase_graph(spec, drawn, next(words, "{summary}")) if spec else None

    @property
    def references(self) -> ReferencesSpec | None:
        """The rules for inheriting references; None if the session has no memory."""
        return self.blueprint.policies.references if self.has_memory else None

    @property
    def has_memory(self) -> bool:
        """Whether prompts may include earlier turns at all."""
        return self.memory is None or self.memory.enabled

    def resolve_path(self, path: str, state: SessionState | None = None) -> JsonValue:
        """Return the value at a dotted path; None if it leads nowhere."""
        place, _, rest = path.partition(".")
        match place:
            case "cartridge":
                return resolve_value(self.cartridge, rest)
            case "attributes":
                return resolve_value(state.attributes, rest) if state else None
            case "session":
                return state.phase if state and rest == "phase" else None
            case _:
                return None

    @property
    def unknown_context_levels(self) -> tuple[str, ...]:
        """Context levels that no layer handles; they are treated as `session_only`."""
        answered = {
            layer.when.context
            for layer in self.blueprint.layers.values()
            if isinstance(layer.when, WhenContext)
        }
        return tuple(sorted({*self.context_levels} - answered - {SESSION_ONLY}))

    @property
    def context_levels(self) -> tuple[str, ...]:
        """The context levels that the cartridge requests."""
        spec = self.blueprint.cartridge
        asked = self.resolve_path(spec.context) if spec and spec.context else None
        levels = tuple(str(level) for level in asked) if isinstance(asked, list) else ()
        return levels or (SESSION_ONLY,)

    def resolve_model(self, state: SessionState, default: str) -> str:
        """Return the litellm name of the session's model; `default` is the service's default model.
        """
        named = state.model or self.blueprint.profiles[state.profile].model
        return default if named == "default" else named

    def find_stage(self, state: SessionState) -> CallStage:
        """Return what the next call of the session is for."""
        return get_call_stage(self.blueprint.profiles[state.profile], state.open)

    def find_call_kind(self, state: SessionState) -> str:
        """Return the kind of the session's next call."""
        summing = state.open.summing if state.open else None
        summed = self.blueprint.resolve_view(summing.view).summary if summing else None
        if summed is not None:
            return summed.call
        profile = self.blueprint.profiles[state.profile]
        ahead = {"plan": profile.plan, "act": profile.act}.get(self.find_stage(state))
        if ahead is not None:
            return ahead
        return self._find_reply_kind(state)

    def list_call_kinds(self, state: SessionState) -> tuple[str, ...]:
        """Return the kinds of calls that a turn may make now, except calls that summarise."""
        profile = self.blueprint.profiles[state.profile]
        ahead = (call for call in (profile.plan, profile.act) if call is not None)
        return (*ahead, self._find_reply_kind(state))

    def _find_reply_kind(self, state: SessionState) -> str:
        profile = self.blueprint.profiles[state.profile]
        spec, phases = self.blueprint.phases, self.phases
        if profile.call != BY_PHASE or spec is None or phases is None:
            return profile.call
        kind = phases.phases[state.phase or phases.start].kind
        return spec.calls["debrief" if kind == "debrief" else "freeform"]


def parse_cartridge(stored: str) -> Cartridge:
    """Parse a pinned cartridge."""
    found: JsonValue = json.loads(stored)
    return found if isinstance(found, dict) else {}


def resolve_value(value: JsonValue, path: str) -> JsonValue:
    """Return the value at a dotted path in nested mappings, or None."""
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def format_value(value: JsonValue) -> str:
    """Format a value on one line; the items of a list are separated by commas."""
    if isinstance(value, list):
        return ", ".join(filter(None, (format_value(item) for item in value)))
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
