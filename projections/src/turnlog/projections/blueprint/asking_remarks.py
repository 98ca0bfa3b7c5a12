"""Resolver checks: what the resolver, the memory and the front door need of each other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from turnlog.projections.blueprint.asking import ASKED_BY
from turnlog.projections.blueprint.faults import Path, Remark
from turnlog.projections.blueprint.layer import ResolvedLayer
from turnlog.projections.blueprint.schema import Blueprint

Remarks = Iterator[Remark]


def remarks_on_asking(blueprint: Blueprint) -> Remarks:
    """Check everything that depends on a resolver, a memory policy or a front door."""
    return chain(_unresolved(blueprint), _unremembered(blueprint), _front_door(blueprint))


def _unresolved(blueprint: Blueprint) -> Remarks:
    if blueprint.resolver is not None:
        return
    for path in _on_the_resolver(blueprint):
        yield Remark(path, "there is no resolver to say so", "add `resolver`")


def _on_the_resolver(blueprint: Blueprint) -> Iterator[Path]:
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


def _unremembered(blueprint: Blueprint) -> Remarks:
    for name, view in blueprint.history.items():
        path = ("history", name, "memory")
        if view.memory and blueprint.policies.memory is None:
            yield Remark(path, "there is no memory policy", "add `policies.memory`")
        if view.memory and view.all:
            what = f"`{name}` is the whole history, so no memory bounds it"
            yield Remark(path, what, "leave out one of the two")


def _front_door(blueprint: Blueprint) -> Remarks:
    if blueprint.front_door is None:
        return
    key = blueprint.session.key if blueprint.session else ()
    if sorted(key) != sorted(ASKED_BY):
        fix = f"write `session: {{key: [{', '.join(sorted(ASKED_BY))}]}}`"
        yield Remark(("front_door",), "its sessions are found by client and conversation", fix)
    for place, specs in (("attributes", blueprint.attributes), ("inputs", blueprint.inputs)):
        for name, spec in specs.items():
            if spec.required:
                what = f"the front door gives no {place}"
                yield Remark((place, name, "required"), what, "let it have a default")
