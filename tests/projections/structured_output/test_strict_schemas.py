"""Which schemas a provider can enforce word for word."""

from __future__ import annotations

from typing import Any

import pytest

from turnlog.projections.structured_output.strict_schemas import is_strict_schema

TEXT = {"type": "string"}


def build_object(**properties: object) -> dict[str, Any]:
    """Return a closed object that needs all its properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "schema",
    [
        build_object(),
        build_object(mood=TEXT, rating={"type": ["integer", "null"], "minimum": 1}),
        build_object(kind={"enum": ["a", "b"]}, one={"const": 1}, when={"format": "date", **TEXT}),
        build_object(steps={"type": "array", "items": build_object(goal=TEXT)}),
        build_object(tree={"$ref": "#/$defs/tree"})
        | {"$defs": {"tree": {"anyOf": [TEXT, build_object(left={"$ref": "#/$defs/tree"})]}}},
    ],
)
def test_schema_of_closed_objects_is_strict(schema: dict[str, Any]) -> None:
    assert is_strict_schema(schema)


FORBIDDEN: list[dict[str, Any]] = [
    {"type": "object", "properties": {"mood": TEXT}, "required": ["mood"]},
    build_object(mood=TEXT) | {"additionalProperties": True},
    build_object(mood=TEXT) | {"required": []},
    build_object(mood={"type": "string", "minLength": 1}),
    build_object(mood=TEXT) | {"allOf": [{}]},
    build_object(mood={}),
    build_object(mood=True),
    build_object(mood={"type": "array"}),
    build_object(mood={"type": ["object", "null"]}),
    build_object(mood={"type": "string", "format": "color"}),
    build_object(mood={"type": "array", "items": {"type": "object"}}),
    build_object(mood={"$ref": "#/$defs/mood"}) | {"$defs": {"mood": {"oneOf": [TEXT]}}},
    build_object(mood={"anyOf": [TEXT, {"type": "object"}]}),
]


@pytest.mark.parametrize("schema", FORBIDDEN)
def test_schema_with_features_forbidden_in_strict_mode_is_not_strict(
    schema: dict[str, Any],
) -> None:
    assert not is_strict_schema(schema)
