"""Validation of values by JSON Schema, and of the schemas themselves.

Nothing is fetched: a schema may refer only to parts of itself. A message repeats the rule of the
schema and never the value, which may be secret.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

_MAX_RULE_CHARACTERS: Final = 120
"""Maximum length of a repeated rule in characters."""


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
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    nowhere: Registry[Any] = Registry()
    try:
        error = next(Draft202012Validator(schema, registry=nowhere).iter_errors(value), None)
    except RecursionError:
        return SchemaViolation((), "it is nested too deep")
    except Unresolvable:
        return SchemaViolation((), "the schema refers to what is not in it")
    if error is None:
        return None
    wanted = json.dumps(error.validator_value)[:_MAX_RULE_CHARACTERS]
    return SchemaViolation(tuple(error.absolute_path), f"`{error.validator}` is {wanted}")


def find_schema_fault(schema: Mapping[str, JsonValue]) -> str | None:
    """Return why a schema cannot be used, or None if it can."""
    from jsonschema import Draft202012Validator, SchemaError  # noqa: PLC0415 as above

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"{'.'.join(map(str, error.absolute_path)) or 'it'} is no JSON Schema"
    elsewhere = [each for each in _iterate_references(dict(schema)) if not each.startswith("#")]
    if elsewhere:
        return f"it refers to {elsewhere[0][:80]!r}, outside itself"
    nowhere = [
        each
        for each in _iterate_references(dict(schema))
        if not _has_reference_target(schema, each)
    ]
    return f"it refers to {nowhere[0][:80]!r}, which is not in it" if nowhere else None


def _has_reference_target(schema: Mapping[str, JsonValue], reference: str) -> bool:
    """Return whether the schema has a subschema at the reference."""
    from referencing import Registry  # noqa: PLC0415 as above
    from referencing.exceptions import Unresolvable  # noqa: PLC0415
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415

    empty: Registry[Any] = Registry()
    whole = empty.with_resource("", DRAFT202012.create_resource(dict(schema)))
    try:
        found = whole.resolver().lookup(reference)
    except Unresolvable:
        return False
    return isinstance(found.contents, dict | bool)


def _iterate_references(schema: JsonValue) -> Iterator[str]:
    match schema:
        case dict():
            for word, inside in schema.items():
                if word in {"$ref", "$dynamicRef", "$id"} and isinstance(inside, str):
                    yield inside
                yield from _iterate_references(inside)
        case list():
            for inside in schema:
                yield from _iterate_references(inside)
        case _:
            pass
