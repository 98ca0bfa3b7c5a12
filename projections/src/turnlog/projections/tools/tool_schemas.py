"""The schemas of tools, completed as strict model servers want them.

A schema may leave out what is empty: `{"type": "object"}` is one. Some model servers refuse a whole
request for it, and with it every turn of the session. What is added changes no meaning: an object
has `properties`, a list has `items`, and a schema that accepts everything is `{}`. References stay
as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

_SCHEMA_WORDS: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""Words whose value is a schema."""

_SCHEMA_LIST_WORDS: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
"""Words whose value may be a list of schemas."""

_SCHEMA_MAP_WORDS: Final = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
"""Words whose value is an object of schemas."""


def complete_schema(schema: JsonValue) -> dict[str, JsonValue]:
    """Return the schema of a tool's arguments, which are an object, with all that may be empty.

    No schema, null and `true` accept every object.
    """
    whole = _complete_part(schema) if isinstance(schema, dict) else {}
    if whole.get("type") is None:
        whole["type"] = "object"
    if whole["type"] == "object" and whole.get("properties") is None:
        whole["properties"] = {}
    return whole


def _complete_part(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    part = {word: _complete_value(word, value) for word, value in schema.items()}
    if _has_type(part, "object") and part.get("properties") is None:
        part["properties"] = {}
    if _has_type(part, "array") and part.get("items") is None:
        part["items"] = {}
    return part


def _complete_value(word: str, value: JsonValue) -> JsonValue:
    match value:
        case dict() if word in _SCHEMA_MAP_WORDS:
            return {name: _complete_member(each) for name, each in value.items()}
        case list() if word in _SCHEMA_LIST_WORDS:
            return [_complete_member(each) for each in value]
        case dict() if word in _SCHEMA_WORDS:
            return _complete_part(value)
        case _:
            return value


def _complete_member(schema: JsonValue) -> JsonValue:
    if schema is True or schema is None:
        return {}
    return _complete_part(schema) if isinstance(schema, dict) else schema


def _has_type(part: Mapping[str, JsonValue], name: str) -> bool:
    kind = part.get("type")
    return name == kind or (isinstance(kind, list) and name in kind)
