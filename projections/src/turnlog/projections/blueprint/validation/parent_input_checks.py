"""Parent input checks: what a child is given of its parent's inputs exists, and is of use to it."""

from __future__ import annotations

from collections.abc import Iterator

from turnlog.projections.blueprint.schema.blueprint_model import Blueprint
from turnlog.projections.blueprint.schema.call_specs import CallSpec, ProfileSpec
from turnlog.projections.blueprint.schema.layer_specs import InputLayer
from turnlog.projections.blueprint.schema.lookups.retrieval_specs import (
    InputQueries,
    PatternQueries,
)
from turnlog.projections.blueprint.schema.strict_model import Name
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    DocumentPath,
    check_known_name,
)


def check_parent_inputs(blueprint: Blueprint) -> BlueprintFindings:
    """Check the inputs that profiles are given as children."""
    asked = {child for each in blueprint.profiles.values() for child in each.children}
    for name, profile in blueprint.profiles.items():
        at = ("profiles", name, "parent_inputs")
        for field in ("parent_inputs", "parent_parts"):
            if getattr(profile, field) and name not in asked:
                what = f"no coordinator asks `{name}`, so nothing is handed to it"
                fix = f"name `{name}` in the `children` of a coordinator"
                yield BlueprintFinding(("profiles", name, field), what, fix)
        for place, handed in enumerate(profile.parent_inputs):
            yield from _check_parent_input(blueprint, name, handed, (*at, place))
            if handed in profile.parent_inputs[:place]:
                yield BlueprintFinding((*at, place), f"`{handed}` stands twice", "keep one")


def _check_parent_input(
    blueprint: Blueprint, name: Name, handed: Name, at: DocumentPath
) -> BlueprintFindings:
    yield from check_known_name(at, "input", handed, blueprint.inputs)
    spec = blueprint.inputs.get(handed)
    if spec is None:
        return
    if spec.type != "text":
        what = f"`inputs.{handed}` has the type `{spec.type}`, and only a text is handed on"
        yield BlueprintFinding(at, what, "leave it to the query, or declare it as `type: text`")
    elif handed not in _list_used_inputs(blueprint, blueprint.profiles[name]):
        what = f"no call of `{name}` includes `inputs.{handed}`"
        fix = f"list a layer `{{input: {handed}}}` in its call, or leave it out here"
        yield BlueprintFinding(at, what, fix)


def _list_used_inputs(blueprint: Blueprint, profile: ProfileSpec) -> set[Name]:
    """Return the inputs that the calls of a profile include, search by, or hand on."""
    named = {*blueprint.list_reply_calls(profile), *filter(None, (profile.plan, profile.act))}
    named |= {*blueprint.list_query_calls(profile)}
    calls = [call for name, call in blueprint.calls.items() if name in named]
    used = {name for call in calls for name in _list_call_inputs(blueprint, call)}
    queries = (each.queries for each in blueprint.retrieval.values())
    divided = (each for each in queries if isinstance(each, InputQueries | PatternQueries))
    used |= {each.input for each in divided if each.input is not None}
    children = (blueprint.profiles.get(child) for child in profile.children)
    return used | {name for child in children if child for name in child.parent_inputs}


def _list_call_inputs(blueprint: Blueprint, call: CallSpec) -> Iterator[Name]:
    if call.input_from is not None:
        yield call.input_from
    for name in call.layers:
        layer = blueprint.layers.get(name)
        if isinstance(layer, InputLayer):
            yield layer.input
