"""Schemas of tools are completed as strict model servers want them, without a change of meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnlog.projections.tools.tool_catalog import ToolOffer, format_definition
from turnlog.projections.tools.tool_schemas import complete_schema

EMPTY: dict[str, Any] = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    "schema",
    [{"type": "object"}, {}, None, True, {"type": None}, {"type": "object", "properties": None}],
)
def test_schema_that_accepts_everything_is_an_object_without_properties(schema: Any) -> None:  # noqa: ANN401
    assert complete_schema(schema) == EMPTY


@pytest.mark.parametrize(
    ("part", "completed"),
    [
        ({"type": "object"}, EMPTY),
        ({"type": ["object", "null"]}, {"type": ["object", "null"], "properties": {}}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "array", "items": {"type": "object"}}, {"type": "array", "items": EMPTY}),
        ({"anyOf": [{"type": "object"}, True]}, {"anyOf": [EMPTY, {}]}),
        (True, {}),
    ],
)
def test_nested_schemas_are_completed_wherever_they_stand(part: Any, completed: Any) -> None:  # noqa: ANN401
    whole: dict[str, Any] = {"type": "object", "properties": {"at": part}, "$defs": {"Place": part}}
    assert complete_schema(whole) == {
        "type": "object",
        "properties": {"at": completed},
        "$defs": {"Place": completed},
    }


@pytest.mark.parametrize(
    "schema",
    [
        {**EMPTY, "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}},
        {**EMPTY, "properties": {"type": {"type": "string"}, "items": {"type": "integer"}}},
        {**EMPTY, "properties": {"a": {"enum": [{"type": "object"}], "default": None}}},
        {**EMPTY, "additionalProperties": False, "required": []},
        {**EMPTY, "properties": {"a": {"default": {"type": "array"}}, "b": False}},
    ],
)
def test_complete_schema_with_its_references_and_values_is_unchanged(schema: Any) -> None:  # noqa: ANN401
    before = json.dumps(schema)
    assert complete_schema(schema) == schema
    assert json.dumps(schema) == before


def test_definition_for_a_model_has_the_completed_schema() -> None:
    offer = ToolOffer(tool="now", description="The time.", schema={"type": "object"})
    definition: Any = format_definition("clock_now", offer)
    assert definition["function"]["parameters"] == EMPTY
