from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import JsonValue

from turnlog.events.errors import Refused, TooLarge
from turnlog.projections.blueprint.schema.blueprint_model import ValueSpec
from turnlog.projections.blueprint.validation.input_values import build_values_schema, check_values

SPECS = {
    "task": ValueSpec(type="id", required=True, also=("taskId",)),
    "language": ValueSpec(type="text", default="English"),
    "locale": ValueSpec(type="locale"),
    "level": ValueSpec(type="int"),
    "hints": ValueSpec(type="bool", also=("showHints", "help")),
    "patterns": ValueSpec(type="list"),
    "player": ValueSpec(type="map"),
}


def expect_refusal(values: dict[str, JsonValue]) -> Refused:
    with pytest.raises(Refused) as refusal:
        check_values(SPECS, values, "attributes")
    return refusal.value


def test_what_is_not_given_takes_its_default_or_stays_away() -> None:
    assert check_values(SPECS, {"task": "t1"}, "attributes") == {
        "task": "t1",
        "language": "English",
    }


def test_what_is_given_stands() -> None:
    values: dict[str, JsonValue] = {
        "task": "ep.whispercross",
        "language": "",
        "locale": "pt-BR",
        "level": 0,
        "hints": False,
        "patterns": [1, "a", None],
        "player": {"name": "Ada"},
    }
    assert check_values(SPECS, values, "attributes") == values


def test_a_missing_value_is_named_with_what_to_add() -> None:
    refusal = expect_refusal({})
    assert (refusal.code, refusal.field) == ("missing-value", "attributes.task")
    assert refusal.fix.startswith("add task: an id")


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    refusal = expect_refusal({"task": "t", "langage": "French"})
    assert (refusal.code, refusal.field) == ("unknown-value", "attributes.langage")
    assert refusal.fix == "write `language`"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("task", ""),
        ("task", "../etc"),
        ("task", "a/b"),
        ("task", ".hidden"),
        ("task", "tаsk"),  # a Cyrillic look-alike  # noqa: RUF001
        ("task", "a\n"),
        ("task", "x" * 129),
        ("task", 7),
        ("language", 7),
        ("language", None),
        ("locale", "e"),
        ("locale", "en/../x"),
        ("level", True),
        ("level", 1.0),
        ("level", "1"),
        ("hints", 1),
        ("patterns", {}),
        ("player", []),
    ],
)
def test_a_value_of_another_kind_is_refused_by_name(name: str, value: JsonValue) -> None:
    refusal = expect_refusal({"task": "t", name: value})
    assert (refusal.code, refusal.field) == ("wrong-type", f"attributes.{name}")
    assert refusal.fix.startswith("send ")


@pytest.mark.parametrize(
    ("values", "code", "field"),
    [
        ({"language": "a\0b"}, "bad-text", "attributes.language"),
        ({"language": "\ud800"}, "bad-text", "attributes.language"),
        ({"player": {"\0": 1}}, "bad-text", "attributes.player"),
        ({"\ud800": 1}, "bad-text", "attributes"),
        ({"player": {"a": [{"b": "\0"}]}}, "bad-text", "attributes.player.a.0.b"),
        ({"patterns": [float("nan")]}, "bad-number", "attributes.patterns.0"),
        ({"patterns": [float("inf")]}, "bad-number", "attributes.patterns.0"),
        ({"level": 2**53}, "bad-number", "attributes.level"),
        ({"level": 10**5000}, "bad-number", "attributes.level"),
    ],
)
def test_what_cannot_be_stored_is_refused_where_it_stands(
    values: dict[str, JsonValue], code: str, field: str
) -> None:
    refusal = expect_refusal({"task": "t", **values})
    assert (refusal.code, refusal.field) == (code, field)


def test_values_nested_without_end_are_refused() -> None:
    deep: list[JsonValue] = []
    for _ in range(10_000):
        deep = [deep]
    assert expect_refusal({"task": "t", "patterns": deep}).code == "too-deep"


def test_more_than_an_event_should_hold_is_refused() -> None:
    refusal = expect_refusal({"task": "t", "language": "x" * 100_001})
    assert isinstance(refusal, TooLarge)
    assert refusal.field == "attributes"


def test_a_name_of_any_length_is_refused_briefly() -> None:
    refusal = expect_refusal({"task": "t", "x" * 90_000: 1})
    assert refusal.code == "unknown-value"
    assert len(str(refusal)) < 200


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(0.5, 9.5)
    | st.text("en-B/", max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner, max_size=2),
    max_leaves=4,
)


def test_a_value_under_another_name_is_returned_under_its_own_and_refused_under_both() -> None:
    assert check_values(SPECS, {"taskId": "t1", "help": True}, "attributes") == {
        "task": "t1",
        "hints": True,
        "language": "English",
    }
    refusal = expect_refusal({"taskId": "t1", "task": "t2"})
    assert (refusal.code, refusal.field) == ("given-twice", "attributes.task")
    refusal = expect_refusal({"taskId": "a b"})
    assert (refusal.code, refusal.field) == ("wrong-type", "attributes.taskId")


@given(st.dictionaries(st.sampled_from([*SPECS, "taskId", "showHints", "help", "other"]), VALUES))
def test_the_schema_takes_exactly_what_the_check_takes(values: dict[str, JsonValue]) -> None:
    schema = build_values_schema(SPECS)
    Draft202012Validator.check_schema(schema)
    # Floats without a fraction are whole numbers to JSON Schema; none are drawn.
    valid = Draft202012Validator(schema).is_valid(json.loads(json.dumps(values)))
    try:
        check_values(SPECS, values, "inputs")
    except Refused:
        assert not valid
    else:
        assert valid
