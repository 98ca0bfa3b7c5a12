"""Any text that a stranger sends is a bounded value, or the one error that every reader expects."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.faults.suite_extent import RUN_EVERYTHING
from turnlog.events.errors import Refused
from turnlog.events.storable_text import replace_unstorable_texts
from turnlog.projections.blueprint.bounded_json import MAX_JSON_NESTING, InvalidJson, parse_json
from turnlog.projections.structured_output.json_repair import InvalidAnswer, validate_answer
from turnlog.projections.tools.result_condensation import parse_members
from turnlog.services.http.strict_json import check_strict_json

many = settings(max_examples=5_000 if RUN_EVERYTHING else 100)

pytestmark = pytest.mark.timeout(900 if RUN_EVERYTHING else 180)

CHARACTERS = st.characters(codec=None)

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(CHARACTERS),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(CHARACTERS), inner),
)

WORDS = st.sampled_from(
    [
        *'[]{},:"\\ \n-.0',
        "NaN",
        "1e999",
        "null",
        '{"a":',
        "\\u0000",
        "\\ud83d",
        "```",
        "\ufeff",
    ]
)

SOUPS = st.lists(
    st.tuples(WORDS, st.sampled_from([1, 1, 1, 2, 64, 65, 999, 5_000])), max_size=12
).map(lambda drawn: "".join(word * times for word, times in drawn))


@st.composite
def draw_damaged_json(draw: st.DrawFn) -> str:
    """Draw JSON of which a piece was replaced by something else."""
    text = json.dumps(draw(JSON_VALUES), ensure_ascii=draw(st.booleans()))
    begin, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    return text[:begin] + draw(SOUPS) + text[end:]


TEXTS = SOUPS | draw_damaged_json() | st.text(CHARACTERS)


def encode_tolerantly(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


@pytest.mark.slow("many generated cases are tried")
@many
@given(JSON_VALUES)
def test_every_json_value_is_parsed_but_for_what_no_event_can_hold(value: JsonValue) -> None:
    written = json.dumps(value)
    assert parse_json(written, as_written=True) == value
    assert parse_json(written) == replace_unstorable_texts(value)


@many
@given(st.one_of(TEXTS, TEXTS.map(encode_tolerantly), st.binary()))
@example("[" * MAX_JSON_NESTING + "]" * MAX_JSON_NESTING)
def test_any_text_is_a_bounded_value_or_raises_invalid_json(raw: str | bytes) -> None:
    try:
        value = parse_json(raw)
    except InvalidJson:
        return
    assert measure_nesting(value) <= MAX_JSON_NESTING
    assert parse_json(json.dumps(value, allow_nan=False)) == value


def measure_nesting(value: JsonValue) -> int:
    match value:
        case list():
            return 1 + max(map(measure_nesting, value), default=0)
        case dict():
            return 1 + max(map(measure_nesting, value.values()), default=0)
        case float():
            assert math.isfinite(value)
            return 0
        case _:
            return 0


ANYTHING: dict[str, JsonValue] = {"type": "object", "additionalProperties": {"$ref": "#"}}


@many
@given(TEXTS)
def test_every_reader_of_untrusted_json_accepts_or_refuses_any_text(text: str) -> None:
    """Bodies, structured answers and results of tools: whatever comes, no other error does."""
    try:
        check_strict_json(encode_tolerantly(text))
    except Refused as refused:
        refused.detail.encode()
        (refused.field or "").encode()
    try:
        json.loads(validate_answer(text, ANYTHING).text.encode())
    except InvalidAnswer as invalid:
        str(invalid).encode()
    parse_members(text)
