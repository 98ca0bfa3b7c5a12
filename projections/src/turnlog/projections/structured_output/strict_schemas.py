"""Which schemas a provider can enforce word for word: those of strict mode.

In strict mode a provider lets the model write nothing but what the schema allows. It takes schemas
of a smaller language only: every object closed and all its properties required, every value of a
stated type, and none of the words that combine or depend on other schemas. A schema outside of it
is sent without strict mode, as a description, and the answer is validated like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

_STRICT_WORDS: Final = frozenset(
    {
        *("$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum"),
        *("exclusiveMaximum", "exclusiveMinimum", "format", "items", "maxItems", "maximum"),
        *("minItems", "minimum", "multipleOf", "pattern", "properties", "required", "title"),
        "type",
    }
)

_TYPING_WORDS: Final = ("$ref", "anyOf", "const", "enum", "type")
"""Words of which every schema needs one in strict mode."""

_STRICT_FORMATS: Final = frozenset(
    {"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"}
)


def is_strict_schema(schema: JsonValue) -> bool:
    """Return whether a schema meets the demands of strict mode as it is written."""
    if not isinstance(schema, dict):
        return False
    is_typed = any(word in schema for word in _TYPING_WORDS)
    is_known = schema.keys() <= _STRICT_WORDS
    has_known_format = schema.get("format", "date") in _STRICT_FORMATS
    return (
        is_typed
        and is_known
        and has_known_format
        and _is_closed(schema)
        and all(map(is_strict_schema, _iterate_subschemas(schema)))
    )


def _is_closed(schema: dict[str, JsonValue]) -> bool:
    """Return whether an object has no further properties and needs all of its own."""
    named = schema.get("type")
    types = named if isinstance(named, list) else [named]
    if "array" in types and "items" not in schema:
        return False
    if "object" not in types and "properties" not in schema:
        return True
    properties, required = schema.get("properties"), schema.get("required")
    return (
        schema.get("additionalProperties") is False
        and isinstance(properties, dict)
        and isinstance(required, list)
        and properties.keys() <= {*map(str, required)}
    )


def _iterate_subschemas(schema: dict[str, JsonValue]) -> Iterable[JsonValue]:
    for word in ("properties", "$defs"):
        inside = schema.get(word)
        yield from inside.values() if isinstance(inside, dict) else ()
    choices = schema.get("anyOf")
    yield from choices if isinstance(choices, list) else ()
    if "items" in schema:
        yield schema["items"]
