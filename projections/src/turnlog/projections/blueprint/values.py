"""Checks of attribute values, input values and session keys against a blueprint.

Values are recorded in events and may be used in prompts and paths. A wrong value is refused with
its name and a fix before anything is recorded. The same rules are published as JSON Schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, assert_never

from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.projections.blueprint.faults import instead_of
from turnlog.projections.blueprint.schema import Value
from turnlog.projections.blueprint.storable import MAX_INT, checked_json

ID: Final = r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$"
LOCALE: Final = r"^[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8}){0,4}$"

_EXPECTED: Final = {
    "id": "an id: a letter or digit, then letters, digits and _ . : -, at most 128 in all",
    "text": "text",
    "locale": "a language tag such as `en` or `pt-BR`",
    "int": f"a whole number within {MAX_INT}",
    "bool": "true or false",
    "list": "a list",
    "map": "an object",
}

Values = dict[str, JsonValue]


def checked_values(
    specs: Mapping[str, Value], given: Mapping[str, JsonValue], field: str
) -> Values:
    """Check the given values and add defaults; raise `Refused` naming `field.<name>`."""
    checked_json(given, field)
    for name, value in given.items():
        at = f"{field}.{name[:80]}"
        if name not in specs:
            fix = instead_of(name[:80], specs)
            raise Refused("unknown-value", f"there is no {name[:80]!r}", field=at, fix=fix)
        if not fits(specs[name], value):
            expected = expected_of(specs[name])
            detail = f"{json.dumps(value)[:80]} is not {expected}"
            raise Refused("wrong-type", detail, field=at, fix=f"send {expected}")
    for name, spec in specs.items():
        if spec.required and name not in given:
            fix = f"add {name}: {expected_of(spec)}"
            raise Refused(
                "missing-value", f"{name} must be given", field=f"{field}.{name}", fix=fix
            )
    defaults = {name: spec.default for name, spec in specs.items() if spec.default is not None}
    full = {**defaults, **given}
    return {name: _items(specs[name], value, f"{field}.{name}") for name, value in full.items()}


def carried_over(
    before: Mapping[str, Value],
    after: Mapping[str, Value],
    recorded: Mapping[str, JsonValue],
    field: str,
) -> Values:
    """Check values recorded under another version of the blueprint.

    A recorded value that equals the old default is replaced by the new default.
    """
    defaults = {name: spec.default for name, spec in before.items() if spec.default is not None}
    given = {name: value for name, value in recorded.items() if defaults.get(name) != value}
    return checked_values(after, given, field)


def _items(spec: Value, value: JsonValue, field: str) -> JsonValue:
    """Check the items of a list against the spec of its items."""
    if spec.of is None or not isinstance(value, list):
        return value
    items = ((f"{field}.{place}", item) for place, item in enumerate(value))
    return [checked_values(spec.of, _mapping(item, at), at) for at, item in items]


def _mapping(item: JsonValue, field: str) -> Values:
    if isinstance(item, dict):
        return item
    detail = f"{json.dumps(item)[:80]} is not an object"
    raise Refused("wrong-type", detail, field=field, fix="send an object")


def expected_of(spec: Value) -> str:
    """Describe in words which values are accepted."""
    most = spec.max if spec.max is not None else MAX_INT
    if spec.type == "int" and spec.min is not None:
        return f"a whole number from {spec.min} to {most}"
    return f"a whole number up to {most}" if spec.max is not None else _EXPECTED[spec.type]


def fits(spec: Value, value: JsonValue) -> bool:
    """Return whether a value has the type of its spec.

    Null never has, because it means the same as leaving the value out.
    """
    match spec.type:
        case "id":
            return isinstance(value, str) and re.fullmatch(ID, value) is not None
        case "text":
            return isinstance(value, str)
        case "locale":
            return isinstance(value, str) and re.fullmatch(LOCALE, value) is not None
        case "int":
            return isinstance(value, int) and not isinstance(value, bool) and _within(spec, value)
        case "bool":
            return isinstance(value, bool)
        case "list":
            return isinstance(value, list)
        case "map":
            return isinstance(value, dict)
        case _ as never:
            assert_never(never)


def _within(spec: Value, value: int) -> bool:
    least = value if spec.min is None else spec.min
    most = value if spec.max is None else spec.max
    return least <= value <= most


def schema_of(specs: Mapping[str, Value]) -> Values:
    """Return the JSON Schema of the values that `check_values` accepts."""
    required: list[JsonValue] = [name for name, spec in specs.items() if spec.required]
    return {
        "type": "object",
        "properties": {name: _property(spec) for name, spec in specs.items()},
        "required": required,
        "additionalProperties": False,
    }


def _property(spec: Value) -> Values:
    default: Values = {} if spec.default is None else {"default": spec.default}
    return {**_typed(spec), **default}


def _typed(spec: Value) -> Values:
    match spec.type:
        case "id":
            return {"type": "string", "pattern": ID}
        case "text":
            return {"type": "string"}
        case "locale":
            return {"type": "string", "pattern": LOCALE}
        case "int":
            least = -MAX_INT if spec.min is None else spec.min
            most = MAX_INT if spec.max is None else spec.max
            return {"type": "integer", "minimum": least, "maximum": most}
        case "bool":
            return {"type": "boolean"}
        case "list":
            return {"type": "array", **({"items": schema_of(spec.of)} if spec.of else {})}
        case "map":
            return {"type": "object"}
        case _ as never:
            assert_never(never)
