"""How arguments of tool calls are condensed, by the assembler and by the verifier of bundles."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog.events.model.manifest import ArgumentLimits
from turnlog.events.storable_text import is_storable
from turnlog.projections.tools.argument_condensation import (
    ARGUMENT_LIMITS,
    ArgumentForm,
    condense_arguments,
)
from turnlog.services.bundle import condensed_arguments

FORMS: tuple[ArgumentForm, ...] = ("summary", "sample", "digest")


def condense(value: dict[str, Any], form: ArgumentForm) -> Any:  # noqa: ANN401 - any JSON value
    return json.loads(condense_arguments(json.dumps(value), ARGUMENT_LIMITS[form]))


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("summary", "x" * 400 + "\n(4600 characters are left out)"),
        ("sample", "x" * 60 + "\n(4940 characters are left out)"),
        ("digest", "(5000 characters are left out)"),
    ],
)
def test_long_text_is_cut_and_a_line_says_by_how_much(form: ArgumentForm, text: str) -> None:
    found = condense({"path": "a.md", "text": "x" * 5_000, "mode": 7}, form)
    assert found == {"path": "a.md", "text": text, "mode": 7}


def test_long_lists_and_many_members_are_counted() -> None:
    rows = [{"id": number, "note": "n" * 90} for number in range(50)]
    found = condense({"rows": rows, "few": [1, 2, 3, 4, 5]}, "sample")
    assert [type(each) for each in found["rows"]] == [dict, dict, dict, str]
    assert found["rows"][0] == rows[0], "a note of 90 characters is hardly longer than its line"
    assert found["rows"][-1] == "(47 items are left out)"
    assert found["few"] == [1, 2, 3, 4, 5]
    many = condense({"nested": {f"m{number}": number for number in range(20)}}, "digest")
    assert many["nested"]["(left out)"] == "(12 members are left out)"
    assert len(many["nested"]) == 9


@pytest.mark.parametrize(
    "value",
    [
        {"k" * 5_000: 1},
        {"deep": [[[[["x" * 9_000]]]]], **{f"name-{n}": "v" * 39 for n in range(9_000)}},
        {
            f"{'n' * 200}{number}": {f"{'m' * 200}{inner}": inner for inner in range(9)}
            for number in range(9)
        },
    ],
)
def test_shortest_form_is_short_whatever_the_arguments_are(value: dict[str, Any]) -> None:
    written = json.dumps(value)
    found = condense_arguments(written, ARGUMENT_LIMITS["digest"])
    assert isinstance(json.loads(found), dict)
    assert len(found) <= 1_000


def condense_twice(written: str, form: ArgumentForm) -> Any:  # noqa: ANN401 - any JSON value
    """Condense by the assembler and by the verifier, and return what both came to."""
    limits = ARGUMENT_LIMITS[form]
    found = condense_arguments(written, limits)
    recorded = json.loads(limits.model_dump_json(exclude_defaults=True))
    assert condensed_arguments.condense_arguments(written, recorded) == found
    found.encode()
    return json.loads(found)


@pytest.mark.parametrize(("form", "characters"), [("summary", 400), ("sample", 60), ("digest", 0)])
@pytest.mark.parametrize("letter", ["x", '"', "\u00e9", "\U0001f600", "\0", "\ud800"])
def test_text_is_whole_up_to_forty_characters_over_its_limit(
    form: ArgumentForm, characters: int, letter: str
) -> None:
    sent = "\ufffd" if letter in "\0\ud800" else letter
    for length in (characters + 39, characters + 40):
        found = condense_twice(json.dumps({"a": {"b": letter * length}}), form)
        assert found == {"a": {"b": sent * length}}
    above = condense_twice(json.dumps({"a": {"b": letter * (characters + 41)}}), form)
    begin = sent * characters + "\n" if characters else ""
    assert above == {"a": {"b": f"{begin}(41 characters are left out)"}}


@pytest.mark.parametrize(("form", "items"), [("sample", 3), ("digest", 0)])
@pytest.mark.parametrize("letter", ["x", "\u00e9", "\0", "\ud800"])
def test_list_is_whole_up_to_forty_characters_of_json(
    form: ArgumentForm, items: int, letter: str
) -> None:
    sent = "\ufffd" if letter in "\0\ud800" else letter
    numbers = [7] * items
    for length in (39, 40, 41):
        room = length - len('[""]') - len("7,") * items
        found = condense_twice(json.dumps({"a": [*numbers, letter * room]}), form)
        last = sent * room if length <= 40 else "(1 items are left out)"
        assert found == {"a": [*numbers, last]}


@pytest.mark.parametrize(("form", "items"), [("summary", 20), ("sample", 3), ("digest", 0)])
def test_longer_list_has_as_many_items_as_its_limit(form: ArgumentForm, items: int) -> None:
    text = "x" * 37
    for length in range(max(items - 1, 1), items + 3):
        found = condense_twice(json.dumps({"a": [text] * length}), form)
        rest = length - items
        note = [f"({rest} items are left out)"] if rest > 0 else []
        assert found == {"a": [text] * min(length, items) + note}


@pytest.mark.parametrize(("form", "most"), [("summary", 28), ("sample", 11), ("digest", 8)])
def test_object_has_eight_members_more_than_a_list_has_items(form: ArgumentForm, most: int) -> None:
    members = {f"m{number}": number for number in range(most)}
    for whole in (members, dict([*members.items()][1:])):
        assert condense_twice(json.dumps({"a": whole}), form) == {"a": whole}
    found = condense_twice(json.dumps({"a": {**members, "last": 0}}), form)
    assert found == {"a": {**members, "(left out)": "(1 members are left out)"}}


@pytest.mark.parametrize("letter", ["k", "\u00e9", "\0", "\ud800"])
def test_shortest_form_is_one_note_from_one_thousand_and_one_characters(letter: str) -> None:
    for length in (999, 1_000, 1_001):
        written = json.dumps({letter * (length - len('{"":1}')): 1})
        shortest = condense_twice(written, "digest")
        is_note = shortest == {"(left out)": f"({len(written)} characters are left out)"}
        assert is_note == (length > 1_000)
        assert len(condense_twice(written, "sample")) == 1, "other forms have no such limit"
        assert "(left out)" not in condense_twice(written, "sample")


LETTERS = st.sampled_from(["x", '"', "\\", "\u00e9", "\U0001f600", "\0", "\ud800", "\udfff"])
OFFSETS = st.integers(-2, 2)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)


@st.composite
def draw_value_near_limits(draw: st.DrawFn, limits: ArgumentLimits) -> Any:  # noqa: ANN401
    """Draw a text, list or object that is as long as a limit, or up to two away from it."""
    letter, over = draw(LETTERS), draw(OFFSETS)
    match draw(st.sampled_from(["text", "brief list", "long list", "object"])):
        case "text":
            return letter * (limits.characters + 40 + over)
        case "brief list":
            numbers = [7] * draw(st.integers(0, 16))
            return [*numbers, letter * (36 - 2 * len(numbers) + over)]
        case "long list":
            return [letter * draw(st.integers(0, 90))] * max(limits.items + over, 0)
        case _:
            count = limits.items + 8 + over
            return {f"{letter}{number}": letter * number for number in range(count)}


@st.composite
def draw_arguments_near_limits(draw: st.DrawFn) -> tuple[ArgumentForm, dict[str, Any]]:
    """Draw a form, and arguments that are near its limits in several places at once."""
    form = draw(st.sampled_from(FORMS))
    leaf = SCALARS | draw_value_near_limits(ARGUMENT_LIMITS[form])
    value = leaf | st.lists(leaf, max_size=3) | st.dictionaries(LETTERS, leaf, max_size=3)
    arguments: dict[str, Any] = draw(st.dictionaries(LETTERS, value, max_size=4))
    if form == "digest":
        brief = json.dumps(condense(arguments, form), ensure_ascii=False, separators=(",", ":"))
        room = 1_000 + draw(OFFSETS) - len(brief) - len(',"":1')
        arguments["k" * max(room, 0)] = 1
    return form, arguments


@settings(max_examples=100)
@given(draw_arguments_near_limits(), st.booleans())
def test_verifier_of_bundles_condenses_identically(
    drawn: tuple[ArgumentForm, dict[str, Any]],
    escapes: bool,  # noqa: FBT001 - drawn
) -> None:
    form, arguments = drawn
    written = json.dumps(arguments, ensure_ascii=escapes)
    condense_twice(written if is_storable(written) else json.dumps(arguments), form)
