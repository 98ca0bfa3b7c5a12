"""Checks of what a blueprint says about the values of its attributes and inputs."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from turnlog.projections.blueprint.linear_patterns import find_pattern_fault
from turnlog.projections.blueprint.schema.blueprint_model import Blueprint, ValueSpec
from turnlog.projections.blueprint.validation.blueprint_faults import (
    BlueprintFinding,
    BlueprintFindings,
    DocumentPath,
)
from turnlog.projections.blueprint.validation.input_values import (
    MAX_PATTERN_TEXT,
    describe_allowed_values,
    is_allowed_value,
)

_TEXT_TYPES = frozenset({"id", "text"})

_SETTING_TYPES: Mapping[str, frozenset[str]] = {
    "of": frozenset({"list"}),
    "min": frozenset({"int"}),
    "max": frozenset({"int"}),
    "min_length": _TEXT_TYPES,
    "max_length": _TEXT_TYPES,
    "pattern": _TEXT_TYPES,
    "enum": _TEXT_TYPES | {"locale", "int"},
}
"""The types that each setting is for."""


def check_value_specs(blueprint: Blueprint) -> BlueprintFindings:
    """Find settings that contradict their type or one another."""
    for place, specs in (("attributes", blueprint.attributes), ("inputs", blueprint.inputs)):
        yield from _check_specs((place,), specs)


def _check_specs(path: DocumentPath, specs: Mapping[str, ValueSpec]) -> BlueprintFindings:
    for name, spec in specs.items():
        at = (*path, name)
        yield from _check_setting_types(at, spec)
        yield from _check_bounds(at, spec)
        yield from _check_pattern(at, spec)
        yield from _check_listed_values(at, spec)
        yield from _check_default(at, spec)
        yield from _check_specs((*at, "of"), spec.of or {})
    yield from _check_other_names(path, specs)


def _check_setting_types(path: DocumentPath, spec: ValueSpec) -> BlueprintFindings:
    for word, types in _SETTING_TYPES.items():
        if getattr(spec, word) is not None and spec.type not in types:
            length = f"{word}_length"
            is_length = spec.type in _SETTING_TYPES.get(length, ())
            what = f"a value of type {spec.type} has no `{word}`"
            fix = f"write `{length}`" if is_length else "leave it out"
            yield BlueprintFinding((*path, word), what, fix)


def _check_bounds(path: DocumentPath, spec: ValueSpec) -> BlueprintFindings:
    pairs = (("min", spec.min, spec.max), ("min_length", spec.min_length, spec.max_length))
    for word, least, most in pairs:
        if least is not None and most is not None and least > most:
            upper = word.replace("min", "max")
            what = f"it is less than {word} {least}"
            yield BlueprintFinding((*path, upper), what, "change one of the two")


def _check_pattern(path: DocumentPath, spec: ValueSpec) -> BlueprintFindings:
    """Find a pattern that no value can be matched with in linear time.

    Not a part of the schema: a session that pinned such a pattern earlier can still be read.
    """
    if spec.pattern is None:
        return
    if fault := find_pattern_fault(spec.pattern):
        yield BlueprintFinding((*path, "pattern"), fault.reason, fault.fix)
    if spec.max_length is not None and spec.max_length > MAX_PATTERN_TEXT:
        what = f"a value with a pattern has at most {MAX_PATTERN_TEXT} characters"
        yield BlueprintFinding((*path, "max_length"), what, "write a smaller number")


def _check_listed_values(path: DocumentPath, spec: ValueSpec) -> BlueprintFindings:
    without_list = spec.model_copy(update={"enum": None})
    values = spec.enum or ()
    for place, value in enumerate(values):
        at = (*path, "enum", place)
        if value in values[:place]:
            yield BlueprintFinding(at, f"`{value}` is listed twice", "keep one")
        elif spec.type in _SETTING_TYPES["enum"] and not _is_allowed(without_list, value):
            expected = describe_allowed_values(without_list)
            yield BlueprintFinding(at, f"`{value}` is not {expected}", f"write {expected}")


def _check_default(path: DocumentPath, spec: ValueSpec) -> BlueprintFindings:
    if spec.default is None:
        return
    at = (*path, "default")
    if spec.required:
        what = "a value that must be given needs no default"
        yield BlueprintFinding(at, what, "leave out one of the two")
    if not _is_allowed(spec, spec.default):
        expected = describe_allowed_values(spec)
        yield BlueprintFinding(at, f"the default is not {expected}", f"write {expected}")


def _is_allowed(spec: ValueSpec, value: JsonValue) -> bool:
    """Return whether a value is allowed, apart from a pattern that is a fault itself."""
    if spec.pattern is not None and find_pattern_fault(spec.pattern):
        spec = spec.model_copy(update={"pattern": None})
    return is_allowed_value(spec, value)


def _check_other_names(path: DocumentPath, specs: Mapping[str, ValueSpec]) -> BlueprintFindings:
    """Find names that stand for two values."""
    taken = set(specs)
    for name, spec in specs.items():
        for place, other in enumerate(spec.also):
            if other in taken:
                what = f"`{other}` is another value's name, or is listed twice"
                yield BlueprintFinding((*path, name, "also", place), what, "choose another name")
            taken.add(other)
