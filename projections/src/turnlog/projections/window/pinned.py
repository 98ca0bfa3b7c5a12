from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt
from turnlog.projections.blueprint.budget import TiktokenCounterSpec
from turnlog.projections.blueprint.ladder import RegisteredStep
from turnlog.projections.blueprint.memory import MemoryPolicy
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.counting import TokenVocabulary
from turnlog.projections.window.material import SessionMaterial, parse_cartridge
from turnlog.projections.window.pieces import ApplyRegisteredStep


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


def build_material(pins: MaterialPins, blobs: Mapping[Digest, str], installed: InstalledExtensions) -> SessionMaterial:
    """Build the material of a session from its blobs; raises `Corrupt` if one is missing."""
    blueprint = Blueprint.model_validate_json(_get_blob(pins.blueprint, blobs))
    cartridge = _get_blob(pins.cartridge, blobs) if pins.cartridge else "{}"
    policy = _get_blob(pins.memory, blobs) if pins.memory else None
    return SessionMaterial(
        blueprint,
        parse_cartridge(cartridge),
        MemoryPolicy.model_validate_json(policy) if policy else None,
        installed.registered_steps,
        installed.vocabularies,
    )


def _get_blob(digest: Digest, blobs: Mapping[Digest, str]) -> str:
    if digest not in blobs:
        raise Corrupt(f"blob {digest}", "it is not there")
    return blobs[digest]


def list_registered_steps(blueprint: Blueprint) -> Iterator[str]:
    """Yield the names of the registered steps that a blueprint's ladders use."""
    rungs = (step.action for budget in blueprint.budget.values() for step in budget.steps)
    return (rung.name for rung in rungs if isinstance(rung, RegisteredStep))


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
