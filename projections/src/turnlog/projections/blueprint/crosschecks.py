"""Blueprint checks: every name that one part uses is defined by another part.

A check yields findings with paths; the loader adds the lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import Final, assert_never

from turnlog.projections.blueprint.asking_remarks import remarks_on_asking
from turnlog.projections.blueprint.budget_checks import budget_remarks
from turnlog.projections.blueprint.faults import Path, Remark, instead_of
from turnlog.projections.blueprint.layer import (
    AttributeLayer,
    CarryLayer,
    ChoicesLayer,
    FieldsLayer,
    FileLayer,
    InputLayer,
    Layer,
    OverrideLayer,
    PromptsLayer,
    ResolvedLayer,
    ResultsLayer,
    SegmentsLayer,
    SourceLayer,
    StepLayer,
    TextLayer,
    ToolsLayer,
    WhenAttribute,
)
from turnlog.projections.blueprint.override_checks import override_remarks
from turnlog.projections.blueprint.parameters import PARAMETERS
from turnlog.projections.blueprint.phase_checks import phase_remarks
from turnlog.projections.blueprint.phases import BY_PHASE
from turnlog.projections.blueprint.safety import CheckRule
from turnlog.projections.blueprint.schema import (
    Blueprint,
    CallSpec,
    HistoryMessages,
    SystemMessage,
    UserMessage,
    Value,
)
from turnlog.projections.blueprint.segment_checks import segment_remarks
from turnlog.projections.blueprint.slots import slots_in
from turnlog.projections.blueprint.strict import Name
from turnlog.projections.blueprint.tool_checks import tool_remarks
from turnlog.projections.blueprint.values import expected_of, fits
from turnlog.projections.blueprint.view_checks import view_remarks

PROVIDER: Final = "provider"
"""The slot of file paths that is not an attribute."""
BUILT_IN: Final = ("input", "history")
"""Layers that exist without being defined."""
IN_PATHS: Final = frozenset({"id", "locale"})
"""Types of attributes that may be part of a path."""

Remarks = Iterator[Remark]


def crosschecked(blueprint: Blueprint) -> Remarks:
    """Check a whole blueprint."""
    return chain(
        _values(blueprint),
        _layers(blueprint),
        _searched(blueprint, ("prompts", "search"), blueprint.prompts.search),
        *(_call(blueprint, name, call) for name, call in blueprint.calls.items()),
        view_remarks(blueprint),
        budget_remarks(blueprint),
        segment_remarks(blueprint),
        _profiles(blueprint),
        phase_remarks(blueprint),
        _paths(blueprint),
        remarks_on_asking(blueprint),
        tool_remarks(blueprint),
        override_remarks(blueprint),
    )


def _unknown(path: Path, kind: str, name: str, known: Iterable[str]) -> Remarks:
    if name not in known:
        yield Remark(path, f"there is no {kind} `{name}`", instead_of(name, known))


def _values(blueprint: Blueprint) -> Remarks:
    for place, specs in (("attributes", blueprint.attributes), ("inputs", blueprint.inputs)):
        for name, spec in specs.items():
            path = (place, name)
            if spec.default is not None and spec.required:
                what = "a value that must be given needs no default"
                yield Remark((*path, "default"), what, "leave out one of the two")
            if spec.default is not None and not fits(spec, spec.default):
                fix = f"write {expected_of(spec)}"
                yield Remark((*path, "default"), f"the default is no `{spec.type}`", fix)
            yield from _bounds(path, spec)
    if PROVIDER in blueprint.attributes:
        what = f"`{PROVIDER}` is the provider of the model in use"
        yield Remark(("attributes", PROVIDER), what, "choose another name")


def _bounds(path: Path, spec: Value) -> Remarks:
    """Find settings that the type of a value does not have."""
    if spec.of is not None and spec.type != "list":
        yield Remark((*path, "of"), f"a value of type {spec.type} has no items", "leave it out")
    for word, bound in (("min", spec.min), ("max", spec.max)):
        if bound is not None and spec.type != "int":
            yield Remark((*path, word), f"a value of type {spec.type} has no size", "leave it out")
    if spec.min is not None and spec.max is not None and spec.min > spec.max:
        yield Remark((*path, "max"), f"it is less than min {spec.min}", "change one of the two")
    for name, inner in (spec.of or {}).items():
        yield from _bounds((*path, "of", name), inner)


def _layers(blueprint: Blueprint) -> Remarks:
    for name, layer in blueprint.layers.items():
        path = ("layers", name)
        if name in BUILT_IN:
            yield Remark(path, f"`{name}` is a layer of its own", "choose another name")
        if isinstance(layer.when, WhenAttribute):
            where = (*path, "when", "attribute")
            yield from _unknown(where, "attribute", layer.when.attribute, blueprint.attributes)
        yield from _source(blueprint, path, layer)


def _source(blueprint: Blueprint, path: Path, layer: Layer) -> Remarks:
    match layer:
        case TextLayer(text=text):
            for slot in slots_in(text):
                yield from _unknown((*path, "text"), "attribute", slot, blueprint.attributes)
        case AttributeLayer(attribute=attribute):
            yield from _unknown((*path, "attribute"), "attribute", attribute, blueprint.attributes)
        case FileLayer(file=file, search=search):
            yield from _place(blueprint, (*path, "file"), file)
            yield from _searched(blueprint, (*path, "search"), search or ())
        case InputLayer(input=name):
            yield from _unknown((*path, "input"), "input", name, blueprint.inputs)
        case FieldsLayer() | ChoicesLayer() | SourceLayer() | SegmentsLayer() | ResolvedLayer():
            return
        case OverrideLayer() | ToolsLayer() | PromptsLayer():
            return
        case StepLayer() | ResultsLayer() | CarryLayer():
            return
        case _ as never:
            assert_never(never)


def _searched(blueprint: Blueprint, path: Path, folders: Sequence[str]) -> Remarks:
    for place, folder in enumerate(folders):
        yield from _place(blueprint, (*path, place), folder)


def _place(blueprint: Blueprint, path: Path, written: str) -> Remarks:
    if leaves_folder(written):
        yield Remark(path, f"`{written}` leaves the folder", "name a place beside the blueprint")
    for slot in slots_in(written):
        yield from _unknown(path, "attribute", slot, (*blueprint.attributes, PROVIDER))
        value = blueprint.attributes.get(slot)
        if value and value.type not in IN_PATHS:
            what = f"`{slot}` is of type {value.type}, which no path can hold"
            yield Remark(path, what, f"make it one of: {', '.join(sorted(IN_PATHS))}")


def leaves_folder(written: str) -> bool:
    """Return whether a path is anything but a plain relative path below the blueprint's folder."""
    path = PurePosixPath(written)
    return path.is_absolute() or ".." in path.parts or "\\" in written or "\0" in written


def _call(blueprint: Blueprint, name: Name, call: CallSpec) -> Remarks:
    path = ("calls", name)
    known = (*blueprint.layers, BUILT_IN[0])
    seen: set[str] = set()
    for place, written in _names(call):
        kind = "history" if place[-1] == "history" else "layer"
        names = blueprint.history if kind == "history" else known
        yield from _unknown((*path, *place), kind, written, names)
        if (mark := f"{kind} {written}") in seen:
            yield Remark((*path, *place), f"{mark} stands twice in this call", "keep one")
        seen.add(mark)
    for parameter in call.parameters:
        yield from _unknown((*path, "parameters", parameter), "parameter", parameter, PARAMETERS)
    if call.budget:
        yield from _unknown((*path, "budget"), "budget", call.budget, blueprint.budget)
    for at, slot in enumerate(call.messages):
        if not isinstance(slot, HistoryMessages) and slot.form:
            form = (*path, "messages", at, "form")
            yield from _unknown(form, "form", slot.form, blueprint.forms)


def _names(call: CallSpec) -> Iterator[tuple[Path, Name]]:
    for place, slot in enumerate(call.messages):
        match slot:
            case SystemMessage(system=layers):
                yield from (
                    (("messages", place, "system", at), name) for at, name in enumerate(layers)
                )
            case UserMessage(user=layers):
                yield from (
                    (("messages", place, "user", at), name) for at, name in enumerate(layers)
                )
            case HistoryMessages(history=view):
                yield ("messages", place, "history"), view
            case _ as never:
                assert_never(never)


def _profiles(blueprint: Blueprint) -> Remarks:
    for name, profile in blueprint.profiles.items():
        for word, call in profile.calls.items():
            path = ("profiles", name, word)
            known = (*blueprint.calls, BY_PHASE) if word == "call" else tuple(blueprint.calls)
            yield from _unknown(path, "call", call, known)
        if profile.call == BY_PHASE and blueprint.phases is None:
            path = ("profiles", name, "call")
            yield Remark(path, "there are no phases to go by", "name a call, or add `phases`")


def _paths(blueprint: Blueprint) -> Remarks:
    """Check the first part of dotted paths, and attribute names.

    The rest depends on the cartridge.
    """
    for path, written in _written_paths(blueprint):
        place, _, rest = written.partition(".")
        if place == "attributes":
            yield from _unknown(path, "attribute", rest.partition(".")[0], blueprint.attributes)
        elif place == "cartridge" and blueprint.cartridge is None:
            yield Remark(path, "there is no cartridge", "add `cartridge`")
        elif place != "cartridge" and written != "session.phase":
            known = ("cartridge", "attributes", "session.phase")
            yield Remark(path, f"`{written}` leads nowhere", instead_of(written, known))


def _written_paths(blueprint: Blueprint) -> Iterator[tuple[Path, str]]:
    for name, layer in blueprint.layers.items():
        if isinstance(layer, FieldsLayer):
            for label, written in layer.fields.items():
                yield ("layers", name, "fields", label), written
    if blueprint.cartridge and blueprint.cartridge.context:
        yield ("cartridge", "context"), blueprint.cartridge.context
    for at, rule in enumerate(blueprint.policies.safety.rules):
        if isinstance(rule, CheckRule) and rule.with_:
            yield ("policies", "safety", "rules", at, "with"), rule.with_
