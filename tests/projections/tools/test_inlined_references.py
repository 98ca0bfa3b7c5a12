"""References in the schemas of tools are written out, alike by the assembler and the verifier."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.projections.tools.inlined_references import MAX_INLINED_VALUES, inline_references
from turnlog.services.bundle.inlined_tools import inline_tool

PLACE = {"type": "object", "properties": {"port": {"type": "string"}}}


def build_tool(parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON of any shape
    return {"type": "function", "function": {"name": "find", "parameters": parameters}}


def inline_parameters(parameters: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    function: Any = inline_references(build_tool(parameters))["function"]
    return function["parameters"]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"type": "object"}, {"type": "object"}),
        (
            {"properties": {"at": {"$ref": "#/$defs/Place"}}, "$defs": {"Place": PLACE}},
            {"properties": {"at": PLACE}},
        ),
        (
            {
                "properties": {"at": {"$ref": "#/definitions/a~1b", "description": "Where."}},
                "definitions": {"a/b": PLACE},
            },
            {"properties": {"at": PLACE | {"description": "Where."}}},
        ),
        (
            {
                "properties": {"tree": {"$ref": "#/$defs/Tree"}},
                "$defs": {"Tree": {"properties": {"left": {"$ref": "#/$defs/Tree"}}}},
            },
            {"properties": {"tree": {"properties": {"left": {}}}}},
        ),
        ({"properties": {"at": {"$ref": "http://other/schema"}}}, {"properties": {"at": {}}}),
        ({"properties": {"$ref": PLACE}}, {"properties": {"$ref": PLACE}}),
    ],
    ids=["none", "defs", "beside others", "recursive", "elsewhere", "an argument of that name"],
)
def test_references_are_replaced_by_what_they_refer_to(parameters: Any, expected: Any) -> None:  # noqa: ANN401
    assert inline_parameters(parameters) == expected
    assert inline_tool(build_tool(parameters)) == build_tool(expected)


def test_schema_that_doubles_at_each_reference_stays_bounded() -> None:
    names = [f"level{number}" for number in range(60)]
    defs: dict[str, Any] = {
        name: {"properties": {each: {"$ref": f"#/$defs/{below}"} for each in ("left", "right")}}
        for name, below in pairwise(names)
    }
    schema = {"$ref": f"#/$defs/{names[0]}", "$defs": defs | {names[-1]: PLACE}}
    inlined = inline_references(build_tool(schema))
    assert len(json.dumps(inlined)) < 100 * MAX_INLINED_VALUES
    assert inline_tool(build_tool(schema)) == inlined


def test_long_chain_of_references_is_followed_to_a_bounded_depth() -> None:
    defs = {f"d{at}": {"properties": {"a": {"$ref": f"#/$defs/d{at + 1}"}}} for at in range(2_000)}
    schema = {"$ref": "#/$defs/d0", "$defs": defs}
    inlined = inline_references(build_tool(schema))
    assert 10 < json.dumps(inlined).count("properties") < 100
    assert inline_tool(build_tool(schema)) == inlined


@pytest.mark.parametrize(
    "long",
    [{"description": "a" * 20_000}, {"enum": [*range(10_000)]}, {"a" * 20_000: 1}],
    ids=["text", "list", "name"],
)
def test_long_definition_is_not_repeated_without_bound(long: Any) -> None:  # noqa: ANN401
    named = {f"p{at}": {"$ref": "#/$defs/long"} for at in range(1_000)}
    schema = {"properties": named, "$defs": {"long": long}}
    inlined = inline_references(build_tool(schema))
    assert len(json.dumps(inlined)) < 1_000 * MAX_INLINED_VALUES
    assert inline_tool(build_tool(schema)) == inlined


WORDS = st.sampled_from(["$defs", "definitions", "properties", "items", "$ref", "a", "b"])

SCHEMAS = st.recursive(
    st.sampled_from(["#", "#/$defs/a", "#/definitions/b", "#/properties/a", "x", 1, True, None]),
    lambda inner: st.dictionaries(WORDS, inner, max_size=4) | st.lists(inner, max_size=3),
    max_leaves=12,
)


@given(SCHEMAS)
def test_assembler_and_verifier_of_bundles_write_references_out_alike(schema: Any) -> None:  # noqa: ANN401
    assert inline_references(build_tool(schema)) == inline_tool(build_tool(schema))
