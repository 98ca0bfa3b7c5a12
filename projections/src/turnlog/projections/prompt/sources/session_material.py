"""What a session's prompts are made from: blueprint, cartridge, memory policy, extensions.

A session is pinned to blobs by digest, so today's files play no part. Trim steps and vocabularies
come from installed packages and are passed in; one that is not installed is reported differently
from a missing blob. Dotted paths (`cartridge.`, `attributes.`, `session.phase`) lead to values; a
path that leads nowhere gives an empty value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt
from turnlog.projections.blueprint.loading.cartridge_source import Cartridge
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.budget_specs import RegisteredStep, TiktokenCounterSpec
from turnlog.projections.blueprint.schema.history_specs import MemoryPolicy
from turnlog.projections.blueprint.schema.layer_specs import CarryLayer, WhenContext
from turnlog.projections.blueprint.schema.lookups.resolver_specs import ReferencesSpec
from turnlog.projections.blueprint.schema.phase_specs import BY_PHASE, PhaseGraph, build_phase_graph
from turnlog.projections.blueprint.schema.policy_specs import LOCALE_ATTRIBUTE
from turnlog.projections.blueprint.template_slots import format_prompt_value
from turnlog.projections.blueprint.token_counters import TokenVocabulary
from turnlog.projections.prompt.sources.layer_content import ApplyRegisteredStep
from turnlog.projections.session.next_call import CallStage, get_call_stage
from turnlog.projections.session.state import SessionState

SESSION_ONLY = "session_only"
"""The context level that every session has."""


# Without slots, for the cached property.
@dataclass(frozen=True, kw_only=True)
class SessionMaterial:
    """What a session is pinned to, loaded."""

    blueprint: Blueprint
    cartridge: Cartridge = field(default_factory=dict[str, JsonValue])
    memory: MemoryPolicy | None = None
    registered_steps: Mapping[str, ApplyRegisteredStep] = field(
        default_factory=dict[str, ApplyRegisteredStep]
    )
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
        """The rules for inheriting references; None if the session has no memory.

        They are the blueprint's, with the settings of the memory policy.
        """
        references = self.blueprint.policies.references if self.has_memory else None
        if references is None or self.memory is None:
            return references
        return self.memory.last_reference.merge_into(references)

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
            case "tools":
                tools = self.blueprint.tools
                return tools.most_steps if tools and rest == "most_steps" else None
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
        requested_levels = self.resolve_path(spec.context) if spec and spec.context else None
        levels = (
            tuple(str(level) for level in requested_levels)
            if isinstance(requested_levels, list)
            else ()
        )
        return levels or (SESSION_ONLY,)

    def resolve_model(self, state: SessionState, default: str) -> str:
        """Return the litellm name of the session's model.

        `default` is the service's default model.
        """
        named = state.model or self.blueprint.profiles[state.profile].model
        return default if named == "default" else named

    def get_replacement(self, state: SessionState) -> str:
        """Return the text in place of a withheld reply, in the session's locale."""
        locale = state.attributes.get(LOCALE_ATTRIBUTE)
        return self.blueprint.policies.get_replacement(locale)

    def find_stage(self, state: SessionState) -> CallStage:
        """Return what the next call of the session is for."""
        return get_call_stage(self.blueprint.profiles[state.profile], state.open)

    def find_call_kind(self, state: SessionState) -> str:
        """Return the kind of the session's next call."""
        pending_summary = state.open.summing if state.open else None
        summed = (
            self.blueprint.resolve_view(pending_summary.view).summary if pending_summary else None
        )
        if summed is not None:
            return summed.call
        querying = state.open.querying if state.open else None
        if querying and (call := self.blueprint.find_query_call(querying)):
            return call
        profile = self.blueprint.profiles[state.profile]
        ahead = {"plan": profile.plan, "act": profile.act}.get(self.find_stage(state))
        if ahead is not None:
            return ahead
        return self._find_reply_kind(state)

    def list_call_kinds(self, state: SessionState) -> tuple[str, ...]:
        """Return the kinds of calls that a turn may make now, except those it can do without."""
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
    return format_prompt_value(value)


@dataclass(frozen=True, slots=True)
class MaterialPins:
    """The digests of a session's material."""

    blueprint: Digest
    cartridge: Digest | None
    memory: Digest | None

    @property
    def digests(self) -> tuple[Digest, ...]:
        """The digests that are set."""
        return tuple(filter(None, (self.blueprint, self.cartridge, self.memory)))


@dataclass(frozen=True, slots=True)
class InstalledExtensions:
    """What installed packages provide, by name."""

    registered_steps: Mapping[str, ApplyRegisteredStep]
    """Registered trim steps."""
    vocabularies: Mapping[str, TokenVocabulary]


def get_pins(state: SessionState) -> MaterialPins:
    """Return what a session is pinned to now."""
    return MaterialPins(state.blueprint.digest, state.cartridge, state.memory)


def build_material(
    pins: MaterialPins, blobs: Mapping[Digest, str], installed: InstalledExtensions
) -> SessionMaterial:
    """Build the material of a session from its blobs; raises `Corrupt` if one is missing."""
    blueprint = Blueprint.model_validate_json(_get_blob(pins.blueprint, blobs))
    cartridge = _get_blob(pins.cartridge, blobs) if pins.cartridge else "{}"
    policy = _get_blob(pins.memory, blobs) if pins.memory else None
    return SessionMaterial(
        blueprint=blueprint,
        cartridge=parse_cartridge(cartridge),
        memory=MemoryPolicy.model_validate_json(policy) if policy else None,
        registered_steps=installed.registered_steps,
        vocabularies=installed.vocabularies,
    )


def _get_blob(digest: Digest, blobs: Mapping[Digest, str]) -> str:
    if digest not in blobs:
        raise Corrupt(f"blob {digest}", "the blob is missing")
    return blobs[digest]


def list_registered_steps(blueprint: Blueprint) -> Iterator[str]:
    """Yield the names of the registered steps that a blueprint's ladders use."""
    actions = (step.action for budget in blueprint.budget.values() for step in budget.steps)
    return (action.name for action in actions if isinstance(action, RegisteredStep))


def list_vocabularies(blueprint: Blueprint) -> Iterator[str]:
    """Yield the names of the vocabularies that a blueprint's budgets count with."""
    counters = (budget.counter for budget in blueprint.budget.values())
    return (counter.tiktoken for counter in counters if isinstance(counter, TiktokenCounterSpec))


def find_missing_extensions(material: SessionMaterial, kind: str) -> tuple[str, ...]:
    """Return what a kind of call needs that is not installed: `step shorten`."""
    spec = material.blueprint.calls.get(kind)
    budget = material.blueprint.budget.get(spec.budget) if spec and spec.budget else None
    if budget is None:
        return ()
    counter = budget.counter
    words = {counter.tiktoken} if isinstance(counter, TiktokenCounterSpec) else set[str]()
    steps = {step.action.name for step in budget.steps if isinstance(step.action, RegisteredStep)}
    return (
        *(f"step {name}" for name in sorted(steps - set(material.registered_steps))),
        *(f"vocabulary {name}" for name in sorted(words - set(material.vocabularies))),
    )


HIDDEN_PHASE: Final = "not for this phase"
"""The exclusion rule of turns whose phase is hidden from the current one."""


@dataclass(frozen=True, slots=True)
class PhaseVisibility:
    """The phases whose turns a prompt may show."""

    phases: frozenset[str] | None = None
    """None if all phases are visible."""

    def can_show(self, phase: str | None) -> bool:
        """Return whether the turns of a phase are visible."""
        return self.phases is None or phase in self.phases


def find_phase_visibility(material: SessionMaterial, state: SessionState) -> PhaseVisibility:
    """Return the phases that are visible from the session's current phase."""
    graph = material.phases
    return PhaseVisibility(graph.get_visible_phases(state.phase) if graph else None)
