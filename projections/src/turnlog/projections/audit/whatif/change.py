"""A hypothetical change to recorded calls: another blueprint, budget or model.

It determines what a recorded call would have been assembled from. Files are read from the changed
blueprint's own folder and not from what a session pinned. If the changed call would need something
that the record does not contain, it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from pydantic import JsonValue

from turnlog.events.content import Digest, digest_of
from turnlog.events.errors import Refused
from turnlog.events.prompt import PromptFile
from turnlog.projections.audit.retelling import Made
from turnlog.projections.blueprint.cartridge import Cartridge
from turnlog.projections.blueprint.layer import FileLayer, SourceLayer
from turnlog.projections.blueprint.memory_source import ReadPolicy
from turnlog.projections.blueprint.overriding import prompt_layers
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.blueprint.values import carried_over
from turnlog.projections.session import replacing
from turnlog.projections.session.moving import misfit
from turnlog.projections.session.state import Brought, SessionState
from turnlog.projections.window.assemble import segments_wanted
from turnlog.projections.window.call import Call, provider_of
from turnlog.projections.window.material import Material
from turnlog.projections.window.pinned import Pins, pins_of
from turnlog.projections.window.segments import locales, recalled
from turnlog.projections.window.supposed import with_budget

Values = Mapping[str, JsonValue]
Prompts = Mapping[str, tuple[str, str]]
"""Where each layer's text was found, and the text, by layer."""
_Made = tuple[Pins, str]
"""The pins that define a session, and its attributes."""


class Folder(Protocol):
    """The current files of a blueprint; each method raises `Refused` for invalid ones."""

    def cartridge(self, blueprint: Blueprint, attributes: Values, /) -> Cartridge | None:
        """Return the cartridge that the attributes name."""
        ...

    def memory_policy(self, blueprint: Blueprint, /) -> ReadPolicy | None:
        """Return the memory policy."""
        ...

    def prompt_files(
        self,
        blueprint: Blueprint,
        layers: Mapping[str, FileLayer],
        provider: str,
        attributes: Values,
        /,
    ) -> Prompts:
        """Return the prompt files of these layers."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """What to change; a field that is None stays as recorded."""

    folder: Folder
    blueprint: Blueprint | None = None
    budget: int | None = None
    """Tokens for whatever budget a call has."""
    model: str | None = None
    default_model: str | None = None
    """The model for profiles with model `default`, if it was another one when the call was made."""


@dataclass(frozen=True, slots=True)
class Supposed:
    """The inputs that a recorded call would have been assembled from."""

    material: Material
    state: SessionState
    asked: Call


@dataclass(slots=True)
class Supposing:
    """Applies a change to the calls of one session; each file is read once."""

    change: Change
    blobs: dict[Digest, str]
    """Blobs of the session; prompt files are added as they are read."""
    _materials: dict[_Made, tuple[Values, Material]] = field(
        default_factory=dict[_Made, tuple[Values, Material]]
    )
    _prompts: dict[tuple[str, _Made], Mapping[str, PromptFile]] = field(
        default_factory=dict[tuple[str, _Made], Mapping[str, PromptFile]]
    )

    def supposed(self, made: Made) -> Supposed:
        """Apply the change to a call; raise `Refused` if the call could not have been made."""
        attributes, material = self._made_from(made)
        kind = _kind(material, made) if self.change.blueprint else made.asked.kind
        if self.change.budget is not None:
            material = with_budget(material, kind, self.change.budget)
        model = self._model(made, material)
        provider = provider_of(model)
        state = replacing.replace(made.state, attributes=dict(attributes))
        state = self._with_prompts(state, made, material, provider)
        inputs = self._inputs(made)
        call = Call(kind, model, provider, made.asked.at, inputs)
        call = self._gathered(made, material, state, call)
        return Supposed(material, _bringing(state, inputs), call)

    def _made_from(self, made: Made) -> tuple[Values, Material]:
        blueprint, state = self.change.blueprint, made.state
        if blueprint is None:
            return state.attributes, made.material
        key = _made_of(state)
        if key not in self._materials:
            before, after = made.material.blueprint.attributes, blueprint.attributes
            attributes = carried_over(before, after, state.attributes, "attributes")
            policy = self.change.folder.memory_policy(blueprint)
            material = replace(
                made.material,
                blueprint=blueprint,
                cartridge=self.change.folder.cartridge(blueprint, attributes) or {},
                memory=policy.policy if policy else None,
            )
            self._materials[key] = (attributes, material)
        return self._materials[key]

    def _model(self, made: Made, material: Material) -> str:
        # A model that the session itself selected is kept: the blueprint does not decide it.
        if self.change.model or self.change.blueprint is None or made.state.model:
            return self.change.model or made.asked.model
        named = material.blueprint.profiles[made.state.profile].model
        was = made.material.blueprint.profiles[made.state.profile].model
        if named != "default":
            return named
        return made.asked.model if was == named else self.change.default_model or made.asked.model

    def _inputs(self, made: Made) -> Values:
        """Return the inputs in the form that the changed blueprint accepts."""
        opened, inputs = made.state.open, made.asked.inputs
        if self.change.blueprint is None or opened is None or opened.text is None:
            return inputs
        before, after = made.material.blueprint.inputs, self.change.blueprint.inputs
        return carried_over(before, after, inputs, "inputs")

    def _with_prompts(
        self, state: SessionState, made: Made, material: Material, provider: str
    ) -> SessionState:
        pinned = made.state.prompts.get(provider)
        if self.change.blueprint is None and pinned is not None:
            return state
        key = (provider, _made_of(state))
        if key not in self._prompts:
            self._prompts[key] = self._read(state, material.blueprint, provider)
        sources = _from_sources(made, material.blueprint)
        prompts = {provider: {**self._prompts[key], **sources}}
        return replacing.replace(state, prompts=prompts)

    def _read(
        self, state: SessionState, blueprint: Blueprint, provider: str
    ) -> Mapping[str, PromptFile]:
        layers = prompt_layers(blueprint)
        if not layers:
            return {}
        found = self.change.folder.prompt_files(blueprint, layers, provider, state.attributes)
        texts = {digest_of(text): text for _, text in found.values()}
        self.blobs |= texts
        return {
            name: PromptFile(digest=digest_of(text), path=path)
            for name, (path, text) in found.items()
        }

    def _gathered(self, made: Made, material: Material, state: SessionState, call: Call) -> Call:
        """Add the recorded segments to a call; raise `Refused` for segments not requested then."""
        wanted = segments_wanted(material, state, call)
        if not wanted:
            return call
        asked = {(each.scope, each.ref) for each in made.asked.gathered.segments}
        for each in wanted:
            if (each.scope, each.ref) not in asked:
                what = "/".join(filter(None, (each.scope, each.ref)))
                raise _unrecorded(f"the library was never asked for segments of {what}", what)
        before = locales(made.material, made.state, made.asked.inputs)
        if locales(material, state, call.inputs) != before:
            detail = f"the library was asked for segments in {', '.join(before) or 'no locale'}"
            raise _unrecorded(detail, "segments.locale")
        return replace(call, gathered=recalled(wanted, made.call.manifest, self.blobs))


def _made_of(state: SessionState) -> _Made:
    """Return what defines a session now; a move may change it during the session."""
    return pins_of(state), repr(sorted(state.attributes.items()))


def _bringing(state: SessionState, inputs: Values) -> SessionState:
    """Return the state with the open turn's input reference set or cleared."""
    opened = state.open
    if opened is None or opened.text is None:
        return state
    brought = Brought(opened.text.sequence, opened.text.place) if inputs else None
    return replacing.replace(state, open=replacing.replace(opened, inputs=brought))


def _kind(material: Material, made: Made) -> str:
    """Return the kind of call; refuse a blueprint that lacks the session's profile or phase."""
    state, graph = made.state, material.phases
    if state.profile not in material.blueprint.profiles:
        fix = "give the blueprint that profile"
        raise misfit(f"it has no profile {state.profile!r}", "profile", fix)
    if graph is not None and state.phase is None:
        raise misfit("it has phases, and the session never was in one", "phase", "leave it out")
    if state.phase is not None and (graph is None or state.phase not in graph.phases):
        raise misfit(f"it has no phase {state.phase!r}", "phase", f"give it a phase {state.phase}")
    return material.call_kind(state)


def _from_sources(made: Made, blueprint: Blueprint) -> Mapping[str, PromptFile]:
    """Return what sources answered when the session queried them; they are not queried again."""
    pinned = made.state.prompts.get(made.asked.provider, {})
    before = made.material.blueprint.layers
    layers = {n: each for n, each in blueprint.layers.items() if isinstance(each, SourceLayer)}
    for name, layer in layers.items():
        known = before.get(name)
        if not isinstance(known, SourceLayer) or known.source != layer.source:
            raise _unrecorded(f"source {layer.source!r} was never asked", f"layers.{name}")
    return {name: pinned[name] for name in layers if name in pinned}


def _unrecorded(detail: str, field: str) -> Refused:
    fix = "it can only be told for what the record holds"
    return Refused("not-recorded", detail, field=field, fix=fix)
