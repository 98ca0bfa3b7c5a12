"""What packages register as entry points: layer sources, ladder steps, checks and resolvers.

A name that no package registers is refused before a session opens. Entry points are loaded only
when they are used, so a broken package does not affect sessions that do without it.
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
"""Given a text and the rule's argument, return what is wrong with the text, or None."""


class Source(Protocol):
    """Supplies a layer's text for a session at its first call."""

    async def __call__(self, session: str, attributes: Mapping[str, JsonValue]) -> str:
        """Return the text, which may be empty."""
        ...


def check_named(name: str) -> Check:
    """Load a check; raise `Refused` when no package registers it."""
    return cast("Check", _loaded(CHECKS, name))


def source_named(name: str) -> Source:
    """Load a layer source; raise `Refused` when no package registers it."""
    return cast("Source", _loaded(SOURCES, name))


def resolver_named(name: str) -> Resolver:
    """Load a resolver; raise `Refused` when no package registers it."""
    return cast("Resolver", _loaded(RESOLVERS, name))


def step_named(name: str) -> TakeStep:
    """Load a ladder step; raise `Refused` when no package registers it."""
    return cast("TakeStep", _loaded(STEPS, name))


def check_steps(blueprint: Blueprint) -> None:
    """Check that all steps of a blueprint's ladders can be loaded; raise `Refused`."""
    for name in steps_named(blueprint):
        step_named(name)


def check_plugins(blueprint: Blueprint) -> None:
    """Check that everything a blueprint names is registered; raise `Refused`."""
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


# Looking for packages reads the disk, and the installed packages do not change in a process.
@cache
def registered(group: str) -> Mapping[str, metadata.EntryPoint]:
    """Return the entry points of a group by name."""
    return {entry.name: entry for entry in metadata.entry_points(group=group)}
