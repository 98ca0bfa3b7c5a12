"""Validation of values by JSON Schema, and of the schemas themselves.

Nothing is fetched: a schema may refer only to parts of itself. A message repeats the rule of the
schema and never the value, which may be secret.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, cast

from pydantic import JsonValue

from turnlog.projections.blueprint.linear_patterns import (
    PatternFault,
    compile_pattern,
    find_pattern_fault,
)

_MAX_RULE_CHARACTERS: Final = 120
"""Maximum length of a repeated rule in characters."""

MAX_VALIDATION_STEPS: Final = 200_000
"""Maximum number of rules that one value is checked by; references to references can double it."""

_steps_left: ContextVar[int] = ContextVar("steps_left")


class _TooManySteps(Exception):
    """A value is not checked any further."""


@dataclass(frozen=True, slots=True)
class SchemaViolation:
    """A rule of a schema that a value violates."""

    path: tuple[str | int, ...]
    """The path within the value."""
    rule: str
    """The violated rule."""


def find_violation(value: JsonValue, schema: Mapping[str, JsonValue]) -> SchemaViolation | None:
    """Return the first violation of a value, or None if it is valid."""
    # The import takes tens of milliseconds, which only sessions with such answers should pay.
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    empty_registry: Registry[Any] = Registry()
    _steps_left.set(MAX_VALIDATION_STEPS)
    try:
        error = next(_build_validator()(schema, registry=empty_registry).iter_errors(value), None)
    except RecursionError:
        return SchemaViolation((), "it is nested too deep")
    except PatternFault as fault:
        return SchemaViolation((), f"the schema has a pattern that cannot be used: {fault.reason}")
    except Unresolvable:
        return SchemaViolation((), "the schema refers to what is not in it")
    except _TooManySteps:
        return SchemaViolation((), f"it takes more than {MAX_VALIDATION_STEPS} steps to check")
    if error is None:
        return None
    rule_value = json.dumps(error.validator_value)[:_MAX_RULE_CHARACTERS]
    return SchemaViolation(tuple(error.absolute_path), f"`{error.validator}` is {rule_value}")


def find_schema_fault(schema: Mapping[str, JsonValue]) -> str | None:
    """Return why a schema cannot be used, or None if it can."""
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 as above

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        # A type is one word of a list or several: the error for one word lists those there are.
        listing = next((each for each in error.context or () if each.validator == "enum"), error)
        place = ".".join(map(str, error.absolute_path)) or "it"
        return f"{place} is no JSON Schema: {listing.message[:_MAX_RULE_CHARACTERS]}"
    if fault := _find_pattern_fault(dict(schema)):
        return fault
    external_references = [
        each for each in _iterate_references(dict(schema)) if not each.startswith("#")
    ]
    if external_references:
        return f"it refers to {external_references[0][:80]!r}, outside itself"
    missing_references = [
        each
        for each in _iterate_references(dict(schema))
        if not _has_reference_target(schema, each)
    ]
    return (
        f"it refers to {missing_references[0][:80]!r}, which is not in it"
        if missing_references
        else None
    )


def _has_reference_target(schema: Mapping[str, JsonValue], reference: str) -> bool:
    """Return whether the schema has a subschema at the reference."""
    from referencing import Registry  # noqa: PLC0415 as above
    from referencing.exceptions import Unresolvable  # noqa: PLC0415
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415

    empty: Registry[Any] = Registry()
    registry = empty.with_resource("", DRAFT202012.create_resource(dict(schema)))
    try:
        found = registry.resolver().lookup(reference)
    except Unresolvable:
        return False
    return isinstance(found.contents, dict | bool)


@cache
def _build_validator() -> Any:  # noqa: ANN401 - jsonschema's validator classes have no type
    """Return a validator that searches patterns in linear time, since models write the values."""
    from jsonschema import Draft202012Validator, validators  # noqa: PLC0415 as above

    extend = cast("Callable[..., Any]", getattr(validators, "extend"))  # noqa: B009 - it is untyped
    rules = dict(Draft202012Validator.VALIDATORS)
    additional = partial(_check_additional_properties, rules["additionalProperties"])
    rules |= {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": additional,
    }
    counted = {word: partial(_check_counted, rule) for word, rule in rules.items()}
    return extend(Draft202012Validator, counted)


def _check_counted(check: Callable[..., Iterator[Any] | None], *parts: object) -> Iterator[Any]:
    """Check one rule of a schema; raise `_TooManySteps` when there were too many."""
    left = _steps_left.get() - 1
    if left < 0:
        raise _TooManySteps
    _steps_left.set(left)
    return iter(check(*parts) or ())


def _check_pattern(_: object, pattern: str, value: object, __: object) -> Iterator[Any]:
    from jsonschema import ValidationError  # noqa: PLC0415 as above

    if isinstance(value, str) and not compile_pattern(pattern).has_match(value):
        yield ValidationError("it does not match")


def _check_pattern_properties(
    validator: Any,  # noqa: ANN401 - as above
    rules: Mapping[str, JsonValue],
    value: object,
    _: object,
) -> Iterator[Any]:
    for name, item in _iterate_members(value):
        for pattern, rule in rules.items():
            if compile_pattern(pattern).has_match(name):
                yield from validator.descend(item, rule, path=name, schema_path=pattern)


def _check_additional_properties(
    check: Callable[..., Iterator[Any] | None],
    validator: object,
    rule: JsonValue,
    value: object,
    schema: Mapping[str, Any],
) -> Iterator[Any]:
    """Check the members that no pattern names as the library does, without its patterns."""
    patterns = [compile_pattern(each) for each in schema.get("patternProperties", {})]
    rest = {
        name: item
        for name, item in _iterate_members(value)
        if not any(pattern.has_match(name) for pattern in patterns)
    }
    plain = {word: each for word, each in schema.items() if word != "patternProperties"}
    yield from check(validator, rule, rest, plain) or ()


def _iterate_members(value: object) -> Iterator[tuple[str, Any]]:
    return iter(cast("dict[str, Any]", value).items() if isinstance(value, dict) else ())


def _find_pattern_fault(schema: JsonValue) -> str | None:
    """Return why a pattern of a schema cannot be searched in linear time."""
    words = [*_iterate_words(schema)]
    patterns = [inside for word, inside in words if word == "pattern" and isinstance(inside, str)]
    named = [inside for word, inside in words if word == "patternProperties"]
    patterns += [each for inside in named if isinstance(inside, dict) for each in inside]
    for pattern in patterns:
        if fault := find_pattern_fault(pattern):
            return f"its pattern {pattern[:80]!r} cannot be used: {fault.reason}; {fault.fix}"
    if named and any(word == "unevaluatedProperties" for word, _ in words):
        return "it has `patternProperties` and `unevaluatedProperties`; use one of them"
    return None


def _iterate_words(schema: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    match schema:
        case dict():
            for word, inside in schema.items():
                yield word, inside
                yield from _iterate_words(inside)
        case list():
            for inside in schema:
                yield from _iterate_words(inside)
        case _:
            pass


def _iterate_references(schema: JsonValue) -> Iterator[str]:
    for word, inside in _iterate_words(schema):
        if word in {"$ref", "$dynamicRef", "$id"} and isinstance(inside, str):
            yield inside
