"""A hypothetical change to recorded calls: another blueprint, budget, ladder or model.

It determines what a recorded call would have been assembled from. Files are read from the changed
blueprint's own folder and not from what a session pinned. What a turn retrieved stays as recorded,
whatever settings the changed blueprint has for it: the index of that time is gone. If the changed
call would need something that the record does not contain, it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from pydantic import JsonValue

from turnlog.events.content import Digest, compute_digest
from turnlog.events.errors import Refused
from turnlog.events.model.manifest import RequestDialect
from turnlog.events.model.prompt_events import PromptFile
from turnlog.projections.audit.record.session_replay import RecordedCallInputs
from turnlog.projections.audit.what_if.ladder_change import LadderChange, change_ladders
from turnlog.projections.blueprint.loading.cartridge_source import Cartridge
from turnlog.projections.blueprint.loading.memory_policy_source import LoadedMemoryPolicy
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.call_specs import CallSpec
from turnlog.projections.blueprint.schema.layer_specs import FileLayer, RetrievalLayer, SourceLayer
from turnlog.projections.blueprint.schema.prompt_overrides import list_prompt_layers
from turnlog.projections.blueprint.validation.input_values import check_recorded_values
from turnlog.projections.prompt.assembly_inputs import (
    ASSEMBLER_VERSION,
    PromptCall,
    parse_provider,
)
from turnlog.projections.prompt.hypothetical_turn import replace_budget
from turnlog.projections.prompt.sources.layer_sources import is_condition_met
from turnlog.projections.prompt.sources.segment_layers import (
    list_locales,
    list_segment_requests,
    restore_segments,
)
from turnlog.projections.prompt.sources.session_material import (
    MaterialPins,
    SessionMaterial,
    get_pins,
)
from turnlog.projections.session import frozen_copies
from turnlog.projections.session.pinned_prompts import find_pinned_files
from turnlog.projections.session.rules.steps.retrieval_rules import find_retrieval
from turnlog.projections.session.rules.upgrade_rules import build_misfit, require_allowed_model
from turnlog.projections.session.state import SessionState
from turnlog.projections.session.text_refs import InputsRef
from turnlog.projections.structured_output.output_requests import OutputRequest

ValuesByName = Mapping[str, JsonValue]

PromptTexts = Mapping[str, tuple[str, str]]
"""Where each layer's text was found, and the text, by layer."""

_DefinitionKey = tuple[MaterialPins, str]
"""The pins that define a session, and its attributes."""


ChooseOutputRequest = Callable[[CallSpec, str], OutputRequest | None]


class WhatIfFolder(Protocol):
    """The current files of a blueprint; each method raises `Refused` for invalid ones."""

    def read_cartridge(self, blueprint: Blueprint, attributes: ValuesByName, /) -> Cartridge | None:
        """Return the cartridge that the attributes name."""
        ...

    def read_memory_policy(self, blueprint: Blueprint, /) -> LoadedMemoryPolicy | None:
        """Return the memory policy."""
        ...

    def read_prompt_files(
        self,
        blueprint: Blueprint,
        layers: Mapping[str, FileLayer],
        provider: str,
        attributes: ValuesByName,
        /,
    ) -> PromptTexts:
        """Return the prompt files of these layers."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfChange:
    """What to change; a field that is None stays as recorded."""

    folder: WhatIfFolder
    blueprint: Blueprint | None = None
    budget: int | None = None
    """Token limit that replaces the budget of each call."""
    model: str | None = None
    ladder: LadderChange | None = None
    """Other settings of the steps of ladders."""
    default_model: str | None = None
    """The model for profiles with model `default`, if it was another one when the call was made."""
    choose_output_request: ChooseOutputRequest | None = None
    """Returns how a call would ask a model for the form of its answer; without it a changed call
    asks as the recorded one did.
    """
    find_dialect: Callable[[str], RequestDialect] | None = None
    """Returns how a request is written for a model; without it all are written as recorded."""


@dataclass(frozen=True, slots=True)
class HypotheticalCall:
    """The inputs that a recorded call would have been assembled from."""

    material: SessionMaterial
    state: SessionState
    call_request: PromptCall


@dataclass(slots=True, kw_only=True)
class ChangeApplier:
    """Applies a change to the calls of one session; each file is read once."""

    change: WhatIfChange
    blobs: dict[Digest, str]
    """Blobs of the session; prompt files are added as they are read."""
    _materials: dict[_DefinitionKey, tuple[ValuesByName, SessionMaterial]] = field(
        default_factory=dict[_DefinitionKey, tuple[ValuesByName, SessionMaterial]]
    )
    _changed: dict[_DefinitionKey, tuple[ValuesByName, SessionMaterial]] = field(
        default_factory=dict[_DefinitionKey, tuple[ValuesByName, SessionMaterial]]
    )
    """The materials with other ladders."""
    _prompts: dict[tuple[str, _DefinitionKey], Mapping[str, PromptFile]] = field(
        default_factory=dict[tuple[str, _DefinitionKey], Mapping[str, PromptFile]]
    )

    def apply_change(self, recorded_call: RecordedCallInputs) -> HypotheticalCall:
        """Apply the change to a call; raise `Refused` if the call could not have been made."""
        attributes, material = self._load_changed_material(recorded_call)
        kind = (
            _select_call_kind(material, recorded_call)
            if self.change.blueprint
            else recorded_call.call_request.kind
        )
        if self.change.budget is not None:
            material = replace_budget(material, kind, self.change.budget)
        model = self._select_model(recorded_call, material)
        provider = parse_provider(model)
        state = frozen_copies.replace(recorded_call.state, attributes=dict(attributes))
        state = self._add_prompts(state, recorded_call, material, provider)
        inputs = self._convert_inputs(recorded_call)
        recorded = recorded_call.call_request
        call = PromptCall(
            kind=kind,
            model=model,
            at=recorded.at,
            inputs=inputs,
            assembler=self._choose_assembler(recorded),
            output_request=self._choose_output_request(recorded_call, material, kind, model),
            dialect=self._find_dialect(recorded, model),
        )
        _require_recorded_retrievals(recorded_call, material, state, call)
        call = self._recall_segments(recorded_call, material, state, call)
        return HypotheticalCall(material, _replace_inputs(state, inputs), call)

    def _load_changed_material(
        self, recorded_call: RecordedCallInputs
    ) -> tuple[ValuesByName, SessionMaterial]:
        if self.change.ladder is None:
            return self._load_material(recorded_call)
        key = _build_definition_key(recorded_call.state)
        if key not in self._changed:
            attributes, material = self._load_material(recorded_call)
            changed = change_ladders(material.blueprint, self.change.ladder)
            self._changed[key] = (attributes, replace(material, blueprint=changed))
        return self._changed[key]

    def _choose_assembler(self, recorded: PromptCall) -> int:
        """Return the version to assemble with: an older one may not know what a step is set to."""
        return recorded.assembler if self.change.ladder is None else ASSEMBLER_VERSION

    def _load_material(
        self, recorded_call: RecordedCallInputs
    ) -> tuple[ValuesByName, SessionMaterial]:
        blueprint, state = self.change.blueprint, recorded_call.state
        if blueprint is None:
            return state.attributes, recorded_call.material
        key = _build_definition_key(state)
        if key not in self._materials:
            before, after = recorded_call.material.blueprint.attributes, blueprint.attributes
            attributes = check_recorded_values(before, after, state.attributes, "attributes")
            policy = self.change.folder.read_memory_policy(blueprint)
            material = replace(
                recorded_call.material,
                blueprint=blueprint,
                cartridge=self.change.folder.read_cartridge(blueprint, attributes) or {},
                memory=policy.policy if policy else None,
            )
            self._materials[key] = (attributes, material)
        return self._materials[key]

    def _select_model(self, recorded_call: RecordedCallInputs, material: SessionMaterial) -> str:
        if self.change.model or self.change.blueprint is None:
            return self.change.model or recorded_call.call_request.model
        if recorded_call.state.model:
            # A model that the session was switched to is kept, if the blueprint allows it.
            require_allowed_model(recorded_call.state.model, material.blueprint.allowed_models)
            return recorded_call.call_request.model
        named = material.blueprint.profiles[recorded_call.state.profile].model
        was = recorded_call.material.blueprint.profiles[recorded_call.state.profile].model
        if named != "default":
            return named
        return (
            recorded_call.call_request.model
            if was == named
            else self.change.default_model or recorded_call.call_request.model
        )

    def _choose_output_request(
        self, recorded_call: RecordedCallInputs, material: SessionMaterial, kind: str, model: str
    ) -> OutputRequest | None:
        """Return how the call asks for the form of its answer: as recorded, unless that changes."""
        recorded, spec = recorded_call.call_request, material.blueprint.calls[kind]
        before = recorded_call.material.blueprint.calls.get(kind)
        is_same = recorded.model == model and before and before.output == spec.output
        if is_same or self.change.choose_output_request is None:
            return recorded.output_request
        return self.change.choose_output_request(spec, model)

    def _find_dialect(self, recorded: PromptCall, model: str) -> RequestDialect:
        """Return how the request is written for its server: as recorded, unless that changes."""
        find = self.change.find_dialect
        return find(model) if find and model != recorded.model else recorded.dialect

    def _convert_inputs(self, recorded_call: RecordedCallInputs) -> ValuesByName:
        """Return the inputs in the form that the changed blueprint accepts."""
        opened, inputs = recorded_call.state.open, recorded_call.call_request.inputs
        if self.change.blueprint is None or opened is None or opened.submission.text is None:
            return inputs
        before, after = recorded_call.material.blueprint.inputs, self.change.blueprint.inputs
        return check_recorded_values(before, after, inputs, "inputs")

    def _add_prompts(
        self,
        state: SessionState,
        recorded_call: RecordedCallInputs,
        material: SessionMaterial,
        provider: str,
    ) -> SessionState:
        pinned = find_pinned_files(recorded_call.state.prompts, provider)
        if self.change.blueprint is None and pinned is not None:
            return state
        key = (provider, _build_definition_key(state))
        if key not in self._prompts:
            self._prompts[key] = self._read_prompt_files(state, material.blueprint, provider)
        sources = _collect_source_prompts(recorded_call, material.blueprint)
        prompts = {provider: {**self._prompts[key], **sources}}
        return frozen_copies.replace(state, prompts=prompts)

    def _read_prompt_files(
        self, state: SessionState, blueprint: Blueprint, provider: str
    ) -> Mapping[str, PromptFile]:
        layers = list_prompt_layers(blueprint)
        if not layers:
            return {}
        found = self.change.folder.read_prompt_files(blueprint, layers, provider, state.attributes)
        texts = {compute_digest(text): text for _, text in found.values()}
        self.blobs |= texts
        return {
            name: PromptFile(digest=compute_digest(text), path=path)
            for name, (path, text) in found.items()
        }

    def _recall_segments(
        self,
        recorded_call: RecordedCallInputs,
        material: SessionMaterial,
        state: SessionState,
        call: PromptCall,
    ) -> PromptCall:
        """Add the recorded segments to a call; raise `Refused` for segments not requested then."""
        requests = list_segment_requests(material, state, call)
        if not requests:
            return call
        recorded_keys = {
            (each.scope, each.ref) for each in recorded_call.call_request.gathered.segments
        }
        for each in requests:
            if (each.scope, each.ref) not in recorded_keys:
                what = "/".join(filter(None, (each.scope, each.ref)))
                raise _build_refusal(f"the library was never asked for segments of {what}", what)
        before = list_locales(
            recorded_call.material, recorded_call.state, recorded_call.call_request.inputs
        )
        if list_locales(material, state, call.inputs) != before:
            detail = f"the library was asked for segments in {', '.join(before) or 'no locale'}"
            raise _build_refusal(detail, "segments.locale")
        return replace(
            call, gathered=restore_segments(requests, recorded_call.call.manifest, self.blobs)
        )


def _build_definition_key(state: SessionState) -> _DefinitionKey:
    """Return what defines a session now; a move may change it during the session."""
    return get_pins(state), repr(sorted(state.attributes.items()))


def _replace_inputs(state: SessionState, inputs: ValuesByName) -> SessionState:
    """Return the state with the open turn's input reference set or cleared."""
    opened = state.open
    text = opened.submission.text if opened else None
    if opened is None or text is None:
        return state
    inputs_ref = InputsRef(text.sequence, text.place) if inputs else None
    submission = replace(opened.submission, inputs=inputs_ref)
    asked = frozen_copies.replace(opened, submission=submission)
    return frozen_copies.replace(state, open=asked)


def _select_call_kind(material: SessionMaterial, recorded_call: RecordedCallInputs) -> str:
    """Return the kind of call; refuse a blueprint that lacks the session's profile or phase."""
    state, graph = recorded_call.state, material.phases
    if state.profile not in material.blueprint.profiles:
        fix = "give the blueprint that profile"
        raise build_misfit(f"it has no profile {state.profile!r}", "profile", fix)
    if graph is not None and state.phase is None:
        raise build_misfit(
            "it has phases, and the session never was in one", "phase", "leave it out"
        )
    if state.phase is not None and (graph is None or state.phase not in graph.phases):
        raise build_misfit(
            f"it has no phase {state.phase!r}", "phase", f"give it a phase {state.phase}"
        )
    querying = state.open.querying if state.open else None
    if querying is not None and material.blueprint.find_query_call(querying) is None:
        fix = f"give `retrieval.{querying}` a `queries` with a `call`"
        raise build_misfit(f"no call of it writes queries of {querying!r}", "retrieval", fix)
    return material.find_call_kind(state)


def _collect_source_prompts(
    recorded_call: RecordedCallInputs, blueprint: Blueprint
) -> Mapping[str, PromptFile]:
    """Return what sources answered when the session queried them; they are not queried again."""
    state, provider = recorded_call.state, recorded_call.call_request.provider
    pinned = find_pinned_files(state.prompts, provider) or {}
    before = recorded_call.material.blueprint.layers
    layers = {n: each for n, each in blueprint.layers.items() if isinstance(each, SourceLayer)}
    for name, layer in layers.items():
        known = before.get(name)
        if not isinstance(known, SourceLayer) or known.source != layer.source:
            raise _build_refusal(f"source {layer.source!r} was never asked", f"layers.{name}")
    return {name: pinned[name] for name in layers if name in pinned}


def _require_recorded_retrievals(
    recorded_call: RecordedCallInputs,
    material: SessionMaterial,
    state: SessionState,
    call: PromptCall,
) -> None:
    """Raise `Refused` for a retrieval that only the changed call shows and the turn never made."""
    shown = _list_retrieval_layers(
        recorded_call.material, recorded_call.state, recorded_call.call_request
    )
    for layer, name in _list_retrieval_layers(material, state, call).items():
        if name not in shown.values() and find_retrieval(state.open, name) is None:
            detail = f"the turn never searched for the retrieval {name}"
            raise _build_refusal(detail, f"layers.{layer}")


def _list_retrieval_layers(
    material: SessionMaterial, state: SessionState, call: PromptCall
) -> dict[str, str]:
    """Return the layers of a call that show a retrieval, with its name."""
    blueprint = material.blueprint
    specs = {name: blueprint.layers.get(name) for name in blueprint.calls[call.kind].layers}
    return {
        name: spec.retrieval
        for name, spec in specs.items()
        if isinstance(spec, RetrievalLayer)
        and (spec.when is None or is_condition_met(spec.when, material, state, call))
    }


def _build_refusal(detail: str, field: str) -> Refused:
    fix = "a what-if can only use recorded inputs"
    return Refused("not-recorded", detail, field=field, fix=fix)
