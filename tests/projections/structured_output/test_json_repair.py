"""Answers that must be JSON: repaired, refused, or left alone when they are valid."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import JsonValue

from turnlog.projections.structured_output.json_repair import (
    InvalidAnswer,
    ValidatedAnswer,
    find_json,
    validate_answer,
)
from turnlog.projections.structured_output.lenient_json import (
    CUT_END,
    SINGLE_QUOTES,
    TRAILING_COMMA,
)
from turnlog.projections.structured_output.schema_repair import JsonSchema
from turnlog.projections.structured_output.schema_validation import find_schema_fault
from turnlog.projections.tools.parsed_plan import PLAN_SCHEMA

ORDER: JsonSchema = {
    "type": "object",
    "required": ["items"],
    "$defs": {"state": {"enum": ["NEW", "USED"]}},
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "count": {"type": "integer"},
                    "note": {"type": "string"},
                    "state": {"anyOf": [{"$ref": "#/$defs/state"}, {"type": "null"}]},
                },
                "additionalProperties": False,
            },
        }
    },
}

HAMMER = '{"items": [{"name": "hammer"}]}'

MENDED: dict[str, tuple[str, JsonValue, tuple[str, ...]]] = {
    "a control character": (
        '{"items": [{"name": "ham\x07mer"}]}',
        {"items": [{"name": "hammer"}]},
        ("control characters taken out",),
    ),
    "a block of code": (
        f"Here you are:\n```json\n{HAMMER}\n```\nAnything else?",
        {"items": [{"name": "hammer"}]},
        ("taken out of a block of code",),
    ),
    "prose around it": (
        f"As {{asked}}: {HAMMER} Anything {{else}}?",
        {"items": [{"name": "hammer"}]},
        ("taken out of the text around it",),
    ),
    "a list of names for objects": (
        '{"items": ["hammer", "nail"]}',
        {"items": [{"name": "hammer"}, {"name": "nail"}]},
        (
            "items.0: what `name` should say, alone",
            "items.1: what `name` should say, alone",
        ),
    ),
    "a number for a text": (
        '{"items": [{"name": 7.5}]}',
        {"items": [{"name": "7.5"}]},
        ("items.0.name: a number for a text",),
    ),
    "one for a list": (
        '{"items": {"name": "hammer"}}',
        {"items": [{"name": "hammer"}]},
        ("items: one for a list",),
    ),
    "the list alone": (
        '[{"name": "hammer"}]',
        {"items": [{"name": "hammer"}]},
        ("it: what `items` should say, alone",),
    ),
    "nothing where something may be said": (
        '{"items": [{"name": "hammer", "note": null}]}',
        {"items": [{"name": "hammer"}]},
        ("items.0.note: nothing, left out",),
    ),
    "a text for a number": (
        '{"items": [{"name": "hammer", "count": " 7.0"}]}',
        {"items": [{"name": "hammer", "count": 7}]},
        ("items.0.count: a text for a number",),
    ),
    "another case of a word": (
        '{"items": [{"name": "hammer", "state": "used "}]}',
        {"items": [{"name": "hammer", "state": "USED"}]},
        ("items.0.state: a word of the enumeration in another case",),
    ),
    "trailing commas": (
        '{"items": [{"name": "hammer",},],}',
        {"items": [{"name": "hammer"}]},
        (TRAILING_COMMA,),
    ),
    "single quotes": (
        "{'items': [{'name': 'a \"hammer\" that isn\\'t'}]}",
        {"items": [{"name": 'a "hammer" that isn\'t'}]},
        (SINGLE_QUOTES,),
    ),
    "a cut end": (
        '{"items": [{"name": "hammer"}, {"name": "saw", "count": 12',
        {"items": [{"name": "hammer"}, {"name": "saw"}]},
        (CUT_END,),
    ),
    "all of it in prose": (
        "Here it is:\n```json\n{'items': [{'name': 'hammer', 'count': '7',}, 'na",
        {"items": [{"name": "hammer", "count": 7}]},
        (
            "taken out of a block of code",
            SINGLE_QUOTES,
            TRAILING_COMMA,
            CUT_END,
            "items.0.count: a text for a number",
        ),
    ),
    "a line break in a text": (
        '{"items": [{"name": "ham\nmer"}]}',
        {"items": [{"name": "ham\nmer"}]},
        ("written anew",),
    ),
}

THOUGHT_OF: dict[str, str] = {
    "a mark in the prose": f"As in [1] and {{}}, I begin. {HAMMER}",
    "a part of it for example": f'A thing is {{"name": "saw"}}. So: {HAMMER} as you asked [2].',
    "a draft": f'{{"items": []}} is not enough, so: {HAMMER}',
    "a draft in thoughts": f'<think>maybe {{"items": []}}</think>{HAMMER}',
    "a draft in a block": f'```json\n{{"items": ["saw"]}}\n```\nBetter:\n```json\n{HAMMER}\n```',
    "a draft that is right": '{"items": []}? No:\n```\n{"items": ["hammer"]}\n```',
    "what it goes by, in a block": f'{HAMMER} by\n```json\n["saw", "axe"]\n```',
    "brackets without number": "[x] " * 200 + HAMMER,
}

BEYOND: dict[str, tuple[str, str]] = {
    "no JSON": ("I would rather not.", "there is no JSON in it"),
    "cut short": ('{"items": [{"name": "ham', "there is no JSON in it"),
    "cut before anything is complete": ('{"items": [', "there is no JSON in it"),
    "an apostrophe in single quotes": ("{'items': [{'name': 'a carpenter's'}]}", "there is no"),
    "no JSON in brackets": ("{items: [hammer]}", "there is no JSON in it"),
    "nothing that must be said": ("{}", "it: `required`"),
    "a word that is not allowed": (
        '{"items": [{"name": "hammer", "secret": 1}]}',
        "items.0: `additionalProperties` is false",
    ),
    "a text for a number": (
        '{"items": [{"name": "hammer", "count": "secret"}]}',
        'items.0.count: `type` is "integer"',
    ),
    "no number at all": ('{"items": [{"name": NaN}]}', "there is no JSON in it"),
    "a mark in the prose alone": ("As in [1], I would rather not.", "it: `type`"),
    "a list that prose ends with": ('I would take ["a saw"]', "it: `type`"),
    "a list in a block beside prose": ('I have\n```\n["a saw"]\n```\nonly.', "it: `type`"),
    "nearly right in the midst of prose": ('Is {"items": "none"} what you want?', "items: `type`"),
    "thoughts alone": (f"<think>Perhaps {HAMMER}", "there is no JSON in it"),
    "a part of what is cut short": (
        f'{{"order": {HAMMER}, "items": [{HAMMER}, {{"na',
        "items.0: `required`",
    ),
    "depth without end": ("[" * 100_000, "there is no JSON in it"),
}


@pytest.mark.parametrize("case", MENDED.values(), ids=MENDED)
def test_nearly_valid_json_is_repaired_and_the_repairs_are_reported(
    case: tuple[str, JsonValue, tuple[str, ...]],
) -> None:
    written, value, repairs = case
    found = validate_answer(written, ORDER)
    assert (found.value, found.repairs) == (value, repairs)
    assert json.loads(found.text) == value


@pytest.mark.parametrize("written", THOUGHT_OF.values(), ids=THOUGHT_OF)
def test_final_json_wins_over_drafts_earlier_in_the_answer(written: str) -> None:
    assert validate_answer(written, ORDER).value == {"items": [{"name": "hammer"}]}


@pytest.mark.parametrize("case", BEYOND.values(), ids=BEYOND)
def test_answer_beyond_repair_is_refused_without_repeating_its_content(
    case: tuple[str, str],
) -> None:
    written, message = case
    with pytest.raises(InvalidAnswer) as refused:
        validate_answer(written, ORDER)
    assert str(refused.value).startswith(message)
    assert "secret" not in str(refused.value)


def test_nothing_is_repaired_if_repair_is_disabled() -> None:
    assert validate_answer(HAMMER, ORDER, repair=False) == ValidatedAnswer(
        HAMMER, json.loads(HAMMER)
    )
    with pytest.raises(InvalidAnswer):
        validate_answer(f"```\n{HAMMER}\n```", ORDER, repair=False)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "thing"}, "type is no JSON Schema"),
        ({"items": {"$ref": "http://example.org/thing.json"}}, "it refers to 'http://example.org"),
    ],
)
def test_schema_with_an_external_or_unresolvable_reference_is_refused(
    schema: JsonSchema, message: str
) -> None:
    assert (find_schema_fault(schema) or "").startswith(message)
    assert find_schema_fault(ORDER) is None
    assert (
        find_schema_fault({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "string"}}})
        is None
    )


names = st.sampled_from(["type", "steps", "goal", "tools", "name", "items", "count", "note"])

scalars: SearchStrategy[JsonValue] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | names
)


def _build_nested_values(inner: SearchStrategy[JsonValue]) -> SearchStrategy[JsonValue]:
    return st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)


def _write_json(value: JsonValue, around: str, *, plain: bool) -> str:
    return around.format(json.dumps(value, ensure_ascii=plain))


texts = st.builds(
    _write_json,
    st.recursive(scalars, _build_nested_values, max_leaves=8),
    st.sampled_from(
        ["{}", "So: {} !", "[1]: {}", "```json\n{}\n```", "<think>{}</think>{{}}", "\x01{}", "{},"]
    ),
    plain=st.booleans(),
)


@given(texts | st.text(max_size=8), st.sampled_from([ORDER, PLAN_SCHEMA, {"type": "string"}, {}]))
def test_repair_is_idempotent_and_leaves_valid_json_unchanged(
    text: str, schema: JsonSchema
) -> None:
    try:
        once = validate_answer(text, schema)
    except InvalidAnswer:
        return
    assert validate_answer(once.text, schema) == ValidatedAnswer(once.text, once.value)
    assert (once.text == text) == (not once.repairs)
    once.text.encode()


def test_json_search_is_bounded_in_a_text_of_many_brackets() -> None:
    """Each bracket that begins nothing takes time that grows with the text before it."""
    assert [each.value for each in find_json("{ " * 1_000 + '{"a": 1}')] == [{"a": 1}]
    with pytest.raises(InvalidAnswer):
        find_json("{ " * 100_000 + '{"a": 1}')
