"""What a call draws on besides what was said: the blueprint, its cartridge, and dotted paths.

A path is a name in a fixed set of places, `cartridge.`, `attributes.` and `session.phase`. What
it leads to is a value, and a value that is not there is empty.
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
from turnlog.projections.blueprint.phases import BY_PHASE, PhaseGraph, graph_of
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.programs import Stage, stage
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.counting import Vocabulary
from turnlog.projections.window.pieces import TakeStep

SESSION_ONLY = "session_only"
"""The level of context every session has."""


# Without slots, since what is read out of it is read once
@dataclass(frozen=True)
class Material:
    """What a session is made from, as it is pinned."""

    blueprint: Blueprint
    cartridge: Cartridge = field(default_factory=dict[str, JsonValue])
    memory: MemoryPolicy | None = None
    registered: Mapping[str, TakeStep] = field(default_factory=dict[str, TakeStep])
    """The steps of packages that its ladders name."""
    vocabularies: Mapping[str, Vocabulary] = field(default_factory=dict[str, Vocabulary])
    """Those that its budgets count by."""

    @cached_property
    def phases(self) -> PhaseGraph | None:
        """The state machine, where there is one."""
        spec, layers = self.blueprint.phases, self.blueprint.layers.values()
        words = (layer.text for layer in layers if isinstance(layer, CarryLayer))
        drawn = self.cartridge.get("phases")
        return graph_of(spec, drawn, next(words, "{summary}")) if spec else None

    @property
    def references(self) -> ReferencesSpec | None:
        """What a turn may mean without saying it; nothing where nothing is remembered."""
        return self.blueprint.policies.references if self.remembers else None

    @property
    def remembers(self) -> bool:
        """Whether later turns may be told of earlier ones at all."""
        return self.memory is None or self.memory.enabled

    def at(self, path: str, state: SessionState | None = None) -> JsonValue:
        """Give what a dotted path leads to; none when it leads nowhere."""
        place, _, rest = path.partition(".")
        match place:
            case "cartridge":
                return followed(self.cartridge, rest)
            case "attributes":
                return followed(state.attributes, rest) if state else None
            case "session":
                return state.phase if state and rest == "phase" else None
            case _:
                return None

    @property
    def unknown_context(self) -> tuple[str, ...]:
        """Levels that no layer answers to; they are treated as `session_only`."""
        answered = {
            layer.when.context
            for layer in self.blueprint.layers.values()
            if isinstance(layer.when, WhenContext)
        }
        return tuple(sorted({*self.context} - answered - {SESSION_ONLY}))

    @property
    def context(self) -> tuple[str, ...]:
        """The levels of context the cartridge asks for."""
        spec = self.blueprint.cartridge
        asked = self.at(spec.context) if spec and spec.context else None
        levels = tuple(str(level) for level in asked) if isinstance(asked, list) else ()
        return levels or (SESSION_ONLY,)

    def model(self, state: SessionState, default: str) -> str:
        """Name the model that answers, as litellm is told it; `default` is the service's own."""
        named = state.model or self.blueprint.profiles[state.profile].model
        return default if named == "default" else named

    def stage(self, state: SessionState) -> Stage:
        """Say what the next call of the session is for."""
        return stage(self.blueprint.profiles[state.profile], state.open)

    def call_kind(self, state: SessionState) -> str:
        """Say which kind of call the session makes now."""
        summing = state.open.summing if state.open else None
        summed = self.blueprint.view(summing.view).summary if summing else None
        if summed is not None:
            return summed.call
        profile = self.blueprint.profiles[state.profile]
        ahead = {"plan": profile.plan, "act": profile.act}.get(self.stage(state))
        if ahead is not None:
            return ahead
        return self._replying(state)

    def kinds(self, state: SessionState) -> tuple[str, ...]:
        """Name the kinds of call that a turn may make now, but for those that sum up."""
        profile = self.blueprint.profiles[state.profile]
        ahead = (call for call in (profile.plan, profile.act) if call is not None)
        return (*ahead, self._replying(state))

    def _replying(self, state: SessionState) -> str:
        profile = self.blueprint.profiles[state.profile]
        spec, phases = self.blueprint.phases, self.phases
        if profile.call != BY_PHASE or spec is None or phases is None:
            return profile.call
        kind = phases.phases[state.phase or phases.start].kind
        return spec.calls["debrief" if kind == "debrief" else "freeform"]


def read_cartridge(stored: str) -> Cartridge:
    """Read a pinned cartridge."""
    found: JsonValue = json.loads(stored)
    return found if isinstance(found, dict) else {}


def followed(value: JsonValue, path: str) -> JsonValue:
    """Follow a dotted path through mappings."""
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def listed(value: JsonValue) -> str:
    """Spell a value on one line: a list as its items, parted by commas."""
    if isinstance(value, list):
        return ", ".join(filter(None, (listed(item) for item in value)))
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
