"""Resolver checks: what the resolver, the memory and the front door need of each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.layer_specs import ResolvedLayer
from turnlog.projections.blueprint.schema.resolver_specs import ASK_SESSION_KEY
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    DocumentPath,
)


def check_resolver_use(blueprint: Blueprint) -> BlueprintFindings:
    """Check everything that depends on a resolver, a memory policy or a front door."""
    return chain(
        _check_resolver_present(blueprint),
        _check_view_memory(blueprint),
        _check_front_door(blueprint),
    )


def _check_resolver_present(blueprint: Blueprint) -> BlueprintFindings:
    if blueprint.resolver is not None:
        return
    for path in _find_resolver_uses(blueprint):
        yield BlueprintFinding(path, "there is no resolver to say so", "add `resolver`")


def _find_resolver_uses(blueprint: Blueprint) -> Iterator[DocumentPath]:
    for name, layer in blueprint.layers.items():
        if isinstance(layer, ResolvedLayer):
            yield ("layers", name, "resolved")
    for name, call in blueprint.calls.items():
        if call.fallback:
            yield ("calls", name, "fallback")
    if blueprint.policies.references:
        yield ("policies", "references")
    if blueprint.front_door:
        yield ("front_door",)


def _check_view_memory(blueprint: Blueprint) -> BlueprintFindings:
    for name, view in blueprint.history.items():
        path = ("history", name, "memory")
        if view.memory and blueprint.policies.memory is None:
            yield BlueprintFinding(path, "there is no memory policy", "add `policies.memory`")
        if view.memory and view.all:
            what = f"`{name}` is the whole history, so no memory bounds it"
            yield BlueprintFinding(path, what, "leave out one of the two")


def _check_front_door(blueprint: Blueprint) -> BlueprintFindings:
    if blueprint.front_door is None:
        return
    key = blueprint.session.key if blueprint.session else ()
    if sorted(key) != sorted(ASK_SESSION_KEY):
        fix = f"write `session: {{key: [{', '.join(sorted(ASK_SESSION_KEY))}]}}`"
        yield BlueprintFinding(
            ("front_door",), "its sessions are found by client and conversation", fix
        )
    for place, specs in (("attributes", blueprint.attributes), ("inputs", blueprint.inputs)):
        for name, spec in specs.items():
            if spec.required:
                what = f"the front door gives no {place}"
                yield BlueprintFinding((place, name, "required"), what, "let it have a default")
