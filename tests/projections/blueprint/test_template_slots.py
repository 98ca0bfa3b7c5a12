from __future__ import annotations

import pytest
from pydantic import JsonValue

from turnlog.projections.blueprint.template_slots import fill_slots, find_slots, format_prompt_value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('as it is, "quoted"', 'as it is, "quoted"'),
        (None, ""),
        (True, "true"),
        (3, "3"),
        (["ž", 1], '["ž", 1]'),
        ({"a": None}, '{"a": null}'),
    ],
)
def test_text_values_are_inserted_verbatim_and_others_as_json(value: JsonValue, text: str) -> None:
    assert format_prompt_value(value) == text
    assert fill_slots("<{x}>", {"x": value}) == f"<{text}>"


def test_malformed_slots_are_left_unchanged() -> None:
    text = "{} {A} { a } {{ {a b} {1}"
    assert find_slots(text) == ()
    assert fill_slots(text, {"a": "x"}) == text


def test_all_slots_are_found_in_order() -> None:
    assert find_slots("{a}/{b_c}-{d-e}{a}") == ("a", "b_c", "d-e", "a")
