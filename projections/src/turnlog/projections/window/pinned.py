from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from turnlog.events.content import Digest
from turnlog.events.errors import Corrupt
from turnlog.projections.blueprint.budget import Tiktoken
from turnlog.projections.blueprint.ladder import Registered
from turnlog.projections.blueprint.memory import MemoryPolicy
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.session.state import SessionState
from turnlog.projections.window.counting import Vocabulary
from turnlog.projections.window.material import Material, read_cartridge
from turnlog.projections.window.pieces import TakeStep


@dataclass(frozen=True, slots=True)
class Pins:
    """The digests of a session's material."""

    blueprint: Digest
    cartridge: Digest | None
    memory: Digest | None

    @property
    def digests(self) -> tuple[Digest, ...]:
        """The digests that are set."""
        return tuple(filter(None, (self.blueprint, self.cartridge, self.memory)))


@dataclass(frozen=True, slots=True)
class Installed:
    """What installed packages provide, by name."""

    registered: Mapping[str, TakeStep]
    """Registered trim steps."""
    vocabularies: Mapping[str, Vocabulary]


def pins_of(state: SessionState) -> Pins:
    """Return what a session is pinned to now."""
    return Pins(state.blueprint.digest, state.cartridge, state.memory)


def pinned(pins: Pins, blobs: Mapping[Digest, str], installed: Installed) -> Material:
    """Build the material of a session from its blobs; raises `Corrupt` if one is missing."""
    blueprint = Blueprint.model_validate_json(_text(pins.blueprint, blobs))
    cartridge = _text(pins.cartridge, blobs) if pins.cartridge else "{}"
    policy = _text(pins.memory, blobs) if pins.memory else None
    return Material(
        blueprint,
        read_cartridge(cartridge),
        MemoryPolicy.model_validate_json(policy) if policy else None,
        installed.registered,
        installed.vocabularies,
    )


def _text(digest: Digest, blobs: Mapping[Digest, str]) -> str:
    if digest not in blobs:
        raise Corrupt(f"blob {digest}", "it is not there")
    return blobs[digest]


def steps_named(blueprint: Blueprint) -> Iterator[str]:
    """Yield the names of the registered steps that a blueprint's ladders use."""
    rungs = (step.rung for budget in blueprint.budget.values() for step in budget.steps)
    return (rung.name for rung in rungs if isinstance(rung, Registered))


def vocabularies_named(blueprint: Blueprint) -> Iterator[str]:
    """Yield the names of the vocabularies that a blueprint's budgets count with."""
    counters = (budget.counter for budget in blueprint.budget.values())
    return (counter.tiktoken for counter in counters if isinstance(counter, Tiktoken))


def lacking(material: Material, kind: str) -> tuple[str, ...]:
    """Return what a kind of call needs that is not installed: `step shorten`."""
    spec = material.blueprint.calls.get(kind)
    budget = material.blueprint.budget.get(spec.budget) if spec and spec.budget else None
    if budget is None:
        return ()
    counter = budget.counter
    words = {counter.tiktoken} if isinstance(counter, Tiktoken) else set[str]()
    steps = {step.rung.name for step in budget.steps if isinstance(step.rung, Registered)}
    return (
        *(f"step {name}" for name in sorted(steps - set(material.registered))),
        *(f"vocabulary {name}" for name in sorted(words - set(material.vocabularies))),
    )
