"""Checks of what a turn looks up before its calls: by the resolver, in memory, in the knowledge."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from turnlog.projections.blueprint.linear_patterns import find_pattern_fault
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.call_specs import ProfileSpec
from turnlog.projections.blueprint.schema.layer_specs import (
    ResolvedLayer,
    RetrievalLayer,
    ToolsLayer,
    WhenConfident,
    WhenUnsure,
)
from turnlog.projections.blueprint.schema.lookups.resolver_specs import ASK_SESSION_KEY
from turnlog.projections.blueprint.schema.lookups.retrieval_specs import (
    CallQueries,
    PatternQueries,
    QueriesSpec,
    RetrievalSettings,
    RetrievalSpec,
)
from turnlog.projections.blueprint.schema.strict_model import Name
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    DocumentPath,
    check_known_name,
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


def check_retrievals(blueprint: Blueprint) -> BlueprintFindings:
    """Check that what is retrieved is used, by names that exist, and that locks hold."""
    for path, name in _find_retrieval_names(blueprint):
        yield from check_known_name(path, "retrieval", name, blueprint.retrieval)
    used = {each.retrieval for each in _list_retrieval_layers(blueprint).values()}
    for name, spec in blueprint.retrieval.items():
        if name not in used:
            what, fix = (
                f"no layer shows what `{name}` finds",
                f"add a layer `{{retrieval: {name}}}`",
            )
            yield BlueprintFinding(("retrieval", name), what, fix)
        yield from _check_locked_settings(blueprint, name, spec)
        if spec.queries is not None:
            yield from _check_queries(blueprint, ("retrieval", name, "queries"), spec.queries)
    for name, profile in blueprint.profiles.items():
        yield from _check_retrieval_conditions(blueprint, name, profile)
        if profile.program == "knowledge":
            yield from _check_knowledge_program(blueprint, name, profile)


def _check_queries(
    blueprint: Blueprint, path: DocumentPath, queries: QueriesSpec
) -> BlueprintFindings:
    if isinstance(queries, CallQueries):
        yield from _check_query_call(blueprint, (*path, "call"), queries.call)
        return
    is_pattern = isinstance(queries, PatternQueries)
    if isinstance(queries, PatternQueries) and (fault := find_pattern_fault(queries.pattern)):
        yield BlueprintFinding((*path, "pattern"), fault.reason, fault.fix)
    if queries.input is None:
        return
    yield from check_known_name((*path, "input"), "input", queries.input, blueprint.inputs)
    spec = blueprint.inputs.get(queries.input)
    allowed = ("text",) if is_pattern else ("list", "text")
    if spec is not None and spec.type not in allowed:
        what = f"`{queries.input}` is of type {spec.type}, which gives no queries"
        yield BlueprintFinding((*path, "input"), what, f"make it one of: {', '.join(allowed)}")


def _check_query_call(blueprint: Blueprint, path: DocumentPath, name: Name) -> BlueprintFindings:
    """Check that a call can be made before a retrieval, and for nothing but its queries."""
    yield from check_known_name(path, "call", name, blueprint.calls)
    if name not in blueprint.calls:
        return
    call, retrieving = blueprint.calls[name], _list_retrieval_layers(blueprint)
    for layer in call.layers:
        if layer in retrieving:
            what = f"the call `{name}` is made before the retrieval, so `{layer}` is empty in it"
            yield BlueprintFinding(path, what, "name a call without layers of retrievals")
    if call.tools:
        what = f"the call `{name}` writes queries, and calls no tools"
        yield BlueprintFinding(("calls", name, "tools"), what, "leave it out")
    named = {
        each for profile in blueprint.profiles.values() for each in _list_calls(blueprint, profile)
    }
    if name in named | blueprint.summary_calls:
        what = f"the call `{name}` is for something else, too"
        yield BlueprintFinding(path, what, "give the queries a call of their own")


def _list_retrieval_layers(blueprint: Blueprint) -> dict[Name, RetrievalLayer]:
    layers = blueprint.layers.items()
    return {name: layer for name, layer in layers if isinstance(layer, RetrievalLayer)}


def _find_retrieval_names(blueprint: Blueprint) -> Iterator[tuple[DocumentPath, Name]]:
    for name, layer in blueprint.layers.items():
        path = ("layers", name)
        match layer:
            case RetrievalLayer(retrieval=named):
                yield (*path, "retrieval"), named
            case ToolsLayer(adapt=named) if named is not None:
                yield (*path, "adapt"), named
            case _:
                pass
        match layer.when:
            case WhenConfident(confident=named):
                yield (*path, "when", "confident"), named
            case WhenUnsure(unsure=named):
                yield (*path, "when", "unsure"), named
            case _:
                pass
    for name, profile in blueprint.profiles.items():
        for retrieval in profile.retrieval:
            yield ("profiles", name, "retrieval", retrieval), retrieval


def _check_locked_settings(
    blueprint: Blueprint, name: Name, spec: RetrievalSpec
) -> BlueprintFindings:
    """Find settings of a profile that a lock overrides."""
    locked = spec.lock.model_fields_set
    locked |= _SIZES if locked & _SIZES else set()
    for profile, each in blueprint.profiles.items():
        given = each.retrieval.get(name, RetrievalSettings()).model_fields_set
        for word in sorted(given & locked):
            path = ("profiles", profile, "retrieval", name, word)
            what = f"`retrieval.{name}.lock` fixes it for all profiles"
            yield BlueprintFinding(path, what, "leave it out, or take it out of the lock")


_SIZES: Final = frozenset({"k", "max_docs"})


def _check_retrieval_conditions(
    blueprint: Blueprint, name: Name, profile: ProfileSpec
) -> BlueprintFindings:
    """Find calls that depend on a retrieval which no call of the profile makes before."""
    calls = [blueprint.calls[each] for each in _list_calls(blueprint, profile)]
    listed = {layer for call in calls for layer in call.layers}
    found = _list_retrieval_layers(blueprint)
    made = {found[layer].retrieval for layer in listed if layer in found}
    for path, retrieval in _find_retrieval_names(blueprint):
        is_condition = path[0] == "layers" and path[-1] != "retrieval"
        unmade = retrieval in blueprint.retrieval and retrieval not in made
        if is_condition and path[1] in listed and unmade:
            what = f"no call of profile `{name}` retrieves `{retrieval}`"
            yield BlueprintFinding(path, what, f"add its layer to a call of `{name}`")


def _list_calls(blueprint: Blueprint, profile: ProfileSpec) -> tuple[Name, ...]:
    """Return the calls of a profile that exist."""
    named = (*profile.calls.values(), *blueprint.list_reply_calls(profile))
    return tuple(dict.fromkeys(name for name in named if name in blueprint.calls))


def _check_knowledge_program(
    blueprint: Blueprint, name: Name, profile: ProfileSpec
) -> BlueprintFindings:
    """Find a call of the program `knowledge` that retrieves nothing, or has tools."""
    layers = _list_retrieval_layers(blueprint)
    for call in _list_calls(blueprint, profile):
        spec, path = blueprint.calls[call], ("calls", call)
        mandatory = [each for each in spec.layers if each in layers and not layers[each].when]
        if not mandatory:
            what = f"profile `{name}` cannot do without a retrieval, and this call has none"
            fix = "list a retrieval layer without a condition, or use the program `chat`"
            yield BlueprintFinding(path, what, fix)
        if {"all", "for_step"} & set(spec.tools):
            what = f"profile `{name}` is of the program `knowledge`, which calls no tools"
            yield BlueprintFinding((*path, "tools"), what, "leave it out")
