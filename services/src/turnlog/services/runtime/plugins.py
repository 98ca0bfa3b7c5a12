"""What packages register under entry points: sources of layers, ladder steps, checks, resolvers.

A name that nobody registers is refused before a session opens by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata
from typing import Final, Protocol, cast

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.asking import RegisteredResolver
from turnlog.projections.blueprint.faults import instead_of
from turnlog.projections.blueprint.layer import SourceLayer
from turnlog.projections.blueprint.safety import CheckRule
from turnlog.projections.blueprint.schema import Blueprint
from turnlog.projections.window.pieces import TakeStep
from turnlog.projections.window.pinned import steps_named
from turnlog.services.runtime.resolver import Resolver

SOURCES: Final = "turnlog.sources"
CHECKS: Final = "turnlog.checks"
RESOLVERS: Final = "turnlog.resolvers"
STEPS: Final = "turnlog.steps"

Check = Callable[[str, JsonValue], str | None]
"""Given a text and what the rule names, says what is wrong with it; none when nothing is."""


class Source(Protocol):
    """Gives a layer's text for a session, when it makes its first call."""

    async def __call__(self, session: str, attributes: Mapping[str, JsonValue]) -> str:
        """Give the text; empty where there is nothing to say."""
        ...


def check_named(name: str) -> Check:
    """Load a check; raises `Refused` when no package registers it."""
    return cast("Check", _loaded(CHECKS, name))


def source_named(name: str) -> Source:
    """Load a source; raises `Refused` when no package registers it."""
    return cast("Source", _loaded(SOURCES, name))


def resolver_named(name: str) -> Resolver:
    """Load a resolver; raises `Refused` when no package registers it."""
    return cast("Resolver", _loaded(RESOLVERS, name))


def step_named(name: str) -> TakeStep:
    """Load a step of a ladder; raises `Refused` when no package registers it."""
    return cast("TakeStep", _loaded(STEPS, name))


def check_steps(blueprint: Blueprint) -> None:
    """See that the steps which a blueprint's ladders take can be taken; raises `Refused`."""
    for name in steps_named(blueprint):
        step_named(name)


def check_plugins(blueprint: Blueprint) -> None:
    """See that everything a blueprint names is registered; raises `Refused`."""
    if isinstance(blueprint.resolver, RegisteredResolver):
        _entry(RESOLVERS, blueprint.resolver.source)
    for layer in blueprint.layers.values():
        if isinstance(layer, SourceLayer):
            _entry(SOURCES, layer.source)
    for rule in blueprint.policies.safety.rules:
        if isinstance(rule, CheckRule):
            _entry(CHECKS, rule.check)
    for name in steps_named(blueprint):
        _entry(STEPS, name)


def _loaded(group: str, name: str) -> object:
    return _entry(group, name).load()


def _entry(group: str, name: str) -> metadata.EntryPoint:
    found = registered(group)
    if name not in found:
        kind = group.removeprefix("turnlog.").removesuffix("s")
        detail = f"no package registers a {kind} {name[:80]!r}"
        raise Refused(f"unknown-{kind}", detail, field=kind, fix=instead_of(name, found))
    return found[name]


# Looking for packages reads the disk, and those of a process stay what they are
@cache
def registered(group: str) -> Mapping[str, metadata.EntryPoint]:
    """Give what packages register in a group, by name."""
    return {entry.name: entry for entry in metadata.entry_points(group=group)}
