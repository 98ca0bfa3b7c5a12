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
    "difficulty": ValueSpec(type="text", enum=("easy", "hard"), also=("mode",)),
    "stars": ValueSpec(type="int", min=1, max=5),
    "players": ValueSpec(type="int", enum=(1, 2, 4)),
    "nick": ValueSpec(type="text", min_length=2, max_length=4),
    "code": ValueSpec(type="text", pattern="[A-Z]{2}|x-[0-9]+"),
    "order": ValueSpec(type="id", pattern="ord-.+", max_length=8),
}


def expect_refusal(values: dict[str, JsonValue]) -> Refused:
    with pytest.raises(Refused) as refusal:
        check_values(SPECS, values, "attributes")
    return refusal.value


def test_missing_value_gets_its_default_or_is_omitted() -> None:
    assert check_values(SPECS, {"task": "t1"}, "attributes") == {
        "task": "t1",
        "language": "English",
    }


def test_valid_values_are_returned_unchanged() -> None:
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


def test_missing_required_value_is_refused_with_what_to_add() -> None:
    refusal = expect_refusal({})
    assert (refusal.code, refusal.field) == ("missing-value", "attributes.task")
    assert refusal.fix.startswith("add task: an id")


def test_unknown_name_is_refused_with_the_nearest_known_one() -> None:
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
def test_value_of_a_wrong_type_is_refused_with_its_name(name: str, value: JsonValue) -> None:
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
def test_value_that_cannot_be_stored_is_refused_with_its_path(
    values: dict[str, JsonValue], code: str, field: str
) -> None:
    refusal = expect_refusal({"task": "t", **values})
    assert (refusal.code, refusal.field) == (code, field)


@pytest.mark.parametrize(
    ("name", "value", "detail", "fix"),
    [
        ("difficulty", "hrad", "it is not one of: easy, hard", "send hard"),
        ("mode", "", "it is not one of: easy, hard", "send one of: easy, hard"),
        ("players", 3, "it is not one of: 1, 2, 4", "send one of: 1, 2, 4"),
        ("stars", 0, "it is not a whole number from 1 to 5", "send a whole number from 1 to 5"),
        ("nick", "A", "it is not text, 2 to 4 characters", "send text, 2 to 4 characters"),
        ("nick", "žąsis", "it is not text, 2 to 4 characters", "send text, 2 to 4 characters"),
        ("code", "LTU", "it is not text, at most 4096 characters, all of it matching", "send"),
        ("code", "x-1 ", "it is not text, at most 4096 characters, all of it matching", "send"),
        ("code", "x-1\n", "it is not text, at most 4096 characters, all of it", "send"),
        ("code", "x-" + "1" * 4_095, "it is not text", "send text, at most 4096 characters"),
        ("order", "ord-12345", "it is not an id", "send an id: a letter or digit"),
    ],
)
def test_disallowed_value_is_refused_with_the_allowed_ones(
    name: str, value: JsonValue, detail: str, fix: str
) -> None:
    refusal = expect_refusal({"task": "t", name: value})
    assert (refusal.code, refusal.field) == ("value-not-allowed", f"attributes.{name}")
    assert refusal.detail.startswith(detail)
    assert refusal.fix.startswith(fix)


def test_values_within_their_constraints_are_returned_unchanged() -> None:
    values: dict[str, JsonValue] = {
        "task": "t",
        "difficulty": "hard",
        "stars": 5,
        "players": 4,
        "nick": "Žąsė",
        "code": "x-" + "1" * 4_094,
        "order": "ord-1234",
    }
    assert check_values(SPECS, values, "inputs") == {**values, "language": "English"}


def test_values_of_list_items_are_checked_by_the_same_rules() -> None:
    specs = {"tags": ValueSpec(type="list", of={"tone": ValueSpec(type="text", enum=("dry",))})}
    assert check_values(specs, {"tags": [{"tone": "dry"}]}, "inputs")
    with pytest.raises(Refused, match="dry") as refusal:
        check_values(specs, {"tags": [{"tone": "dry"}, {"tone": "wet"}]}, "inputs")
    assert refusal.value.field == "inputs.tags.1.tone"


def test_values_nested_too_deep_are_refused() -> None:
    deep: list[JsonValue] = []
    for _ in range(10_000):
        deep = [deep]
    assert expect_refusal({"task": "t", "patterns": deep}).code == "too-deep"


def test_values_too_large_for_an_event_are_refused() -> None:
    refusal = expect_refusal({"task": "t", "language": "x" * 100_001})
    assert isinstance(refusal, TooLarge)
    assert refusal.field == "attributes"


def test_refusal_of_a_very_long_name_is_short() -> None:
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


def test_value_under_an_alias_is_returned_under_its_name_and_refused_under_both() -> None:
    assert check_values(SPECS, {"taskId": "t1", "help": True}, "attributes") == {
        "task": "t1",
        "hints": True,
        "language": "English",
    }
    refusal = expect_refusal({"taskId": "t1", "task": "t2"})
    assert (refusal.code, refusal.field) == ("given-twice", "attributes.task")
    refusal = expect_refusal({"taskId": "a b"})
    assert (refusal.code, refusal.field) == ("wrong-type", "attributes.taskId")


TYPED_VALUES = VALUES | st.sampled_from(
    ["easy", "hard", "LT", "x-7", "x-", "ord-1", "ord-12345", "žąsė", 1, 2, 3, 4, 5, 6]
)


@pytest.mark.slow("many generated cases are tried")
@given(
    st.dictionaries(
        st.sampled_from([*SPECS, "taskId", "showHints", "help", "mode", "other"]), TYPED_VALUES
    )
)
def test_schema_accepts_exactly_the_values_that_the_check_accepts(
    values: dict[str, JsonValue],
) -> None:
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
