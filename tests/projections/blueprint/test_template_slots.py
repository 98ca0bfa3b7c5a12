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
def test_text_stands_as_it_is_and_all_else_as_json(value: JsonValue, text: str) -> None:
    assert format_prompt_value(value) == text
    assert fill_slots("<{x}>", {"x": value}) == f"<{text}>"


def test_what_only_looks_like_a_slot_stands_as_it_is() -> None:
    text = "{} {A} { a } {{ {a b} {1}"
    assert find_slots(text) == ()
    assert fill_slots(text, {"a": "x"}) == text


def test_every_slot_is_named() -> None:
    assert find_slots("{a}/{b_c}-{d-e}{a}") == ("a", "b_c", "d-e", "a")
