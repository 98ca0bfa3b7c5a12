"""What the rules of `input_safety` refuse, mask and note in the values of a request."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

from turnlog.events.errors import Refused
from turnlog.events.model.turn_events import InputFinding
from turnlog.projections.blueprint.input_guard import FINDERS, guard_values, replace_spans
from turnlog.projections.blueprint.schema.policy_specs import InputCheckRule, InputPatternRule

CARD: Final = "4111 1111 1111 1111"

MASK_CARDS: Final = InputCheckRule(name="card", check="cards", action="mask")
MASK_EMAILS: Final = InputCheckRule(name="address", check="emails", action="mask")
REFUSE_CARDS: Final = InputCheckRule(name="cards", check="cards", action="refuse")
NOTE_CARDS: Final = InputCheckRule(name="cards", check="cards", action="note")
REFUSE_KEYS: Final = InputPatternRule(name="keys", pattern="sk-[a-z]{4}", action="refuse")
NOTE_KEYS: Final = InputPatternRule(name="keys", pattern="sk-[a-z]{4}", action="note")


@pytest.mark.parametrize(
    ("value", "masked", "count"),
    [
        (f"Pay by {CARD}.", "Pay by [card].", 1),
        (f"{CARD}, {CARD}", "[card], [card]", 2),
        ({"a": [{"b": CARD}, CARD]}, {"a": [{"b": "[card]"}, "[card]"]}, 2),
        (4111111111111111, "[card]", 1),
        (-4111111111111111, "[card]", 1),
        (4111111111111111.5, "[card]", 1),
    ],
)
def test_masked_value_has_the_name_of_the_rule_in_place_of_what_was_found(
    value: JsonValue, masked: JsonValue, count: int
) -> None:
    guarded = guard_values((MASK_CARDS,), {"meta": value})
    assert guarded.values == {"meta": masked}
    assert guarded.findings == (InputFinding(rule="card", action="mask", count=count),)
    assert guarded.is_masked


@pytest.mark.parametrize("value", ["Hi", "", 1, 0.4111111111111111, True, None, [], {"a": "b"}])
def test_value_without_a_finding_stays_as_it_is(value: JsonValue) -> None:
    guarded = guard_values((MASK_CARDS, REFUSE_KEYS, MASK_EMAILS), {"meta": value})
    assert (guarded.values, guarded.findings, guarded.is_masked) == ({"meta": value}, (), False)


def test_noted_value_stays_as_it_is() -> None:
    values: dict[str, JsonValue] = {"text": f"{CARD} sk-abcd", "meta": {CARD: CARD}}
    guarded = guard_values((NOTE_CARDS, NOTE_KEYS), values)
    assert guarded.values == values
    assert [(each.rule, each.count) for each in guarded.findings] == [("cards", 3), ("keys", 1)]
    assert not guarded.is_masked


@pytest.mark.parametrize(
    ("rule", "value", "field"),
    [
        (REFUSE_CARDS, CARD, "meta"),
        (REFUSE_CARDS, {"a": [1, CARD]}, "meta.a.1"),
        (REFUSE_CARDS, {CARD: 1}, "meta.(19 characters)"),
        (MASK_CARDS, {"a": {CARD: 1}}, "meta.a.(19 characters)"),
        (REFUSE_KEYS, {"sk-abcd": 1}, "meta.(7 characters)"),
        (REFUSE_KEYS, {"note": "It is sk-abcd"}, "meta.note"),
        (REFUSE_CARDS, 4111111111111111, "meta"),
    ],
)
def test_refusal_names_the_rule_and_the_place_and_not_what_was_found(
    rule: InputCheckRule | InputPatternRule, value: JsonValue, field: str
) -> None:
    with pytest.raises(Refused) as caught:
        guard_values((rule,), {"meta": value})
    refusal = caught.value
    assert (refusal.code, refusal.field) == ("unsafe-input", field)
    assert f"`{rule.name}`" in refusal.detail
    for secret in (CARD, "4111111111111111", "sk-abcd"):
        assert secret not in f"{refusal} {refusal.fix}"


def test_rule_sees_a_text_as_the_rules_before_it_left_it() -> None:
    assert guard_values((MASK_CARDS, REFUSE_CARDS), {"text": CARD}).is_masked
    with pytest.raises(Refused):
        guard_values((REFUSE_CARDS, MASK_CARDS), {"text": CARD})


FRAGMENTS = st.sampled_from(
    [
        *("4111", "1111", "4111111111111111", "6304 0000 0000 0000 000", "3782 822463 10005"),
        *("DE89 3704 0044 0532 0130 00", "gb82 west 1234 5698 7654 32", "NO93"),
        *("ada@example.com", "@", ".com", "+49 172 1234567", "(030) 12 34 56 78", "555-234-5678"),
        *(" ", "  ", "-", ".", "/", "x", "0", "4"),
    ]
)


@example("+49 172 1234567+49 172 1234567", ("phones",))
@example("ada@ships.example+49 172 1234567", ("phones", "emails"))
@given(st.lists(FRAGMENTS, max_size=14).map("".join), st.permutations(tuple(FINDERS)))
def test_masked_text_has_nothing_left_to_mask(text: str, checks: tuple[str, ...]) -> None:
    rules = [
        InputCheckRule.model_validate({"name": check, "check": check, "action": "mask"})
        for check in checks
    ]
    masked = guard_values(rules, {"text": text}).values
    assert guard_values(rules, masked).values == masked


def test_spans_are_replaced_from_the_end() -> None:
    text = "a@example.com b@example.com"
    assert replace_spans(text, FINDERS["emails"](text), "[x]") == "[x] [x]"
