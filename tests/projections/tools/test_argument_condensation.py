"""How arguments of tool calls are condensed, by the assembler and by the verifier of bundles."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=60)
    | st.text(min_size=1, max_size=4).map(lambda each: each * 200),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=8,
)


@settings(max_examples=60)
@given(st.dictionaries(st.text(max_size=6), VALUES), st.sampled_from(FORMS), st.booleans())
def test_verifier_of_bundles_condenses_identically(
    value: dict[str, Any],
    form: ArgumentForm,
    escapes: bool,  # noqa: FBT001 - drawn
) -> None:
    written, limits = json.dumps(value, ensure_ascii=escapes), ARGUMENT_LIMITS[form]
    found = condense_arguments(written, limits)
    recorded = json.loads(limits.model_dump_json(exclude_defaults=True))
    assert condensed_arguments.condense_arguments(written, recorded) == found
    assert isinstance(json.loads(found), dict)


def test_escapes_that_no_event_can_hold_are_replaced_identically() -> None:
    written = '{"a": "' + r"\ud800\u0000" + "x" * 500 + '"}'
    for form in FORMS:
        limits = ARGUMENT_LIMITS[form]
        found = condense_arguments(written, limits)
        found.encode()
        again = condensed_arguments.condense_arguments(written, limits.model_dump())
        assert found == again
