"""JSON of strangers is a value of bounded size and depth, or one error that repeats none of it."""

from __future__ import annotations

import json
import sys

import pytest

from turnlog.projections.blueprint.bounded_json import (
    MAX_JSON_NESTING,
    MAX_JSON_VALUES,
    InvalidJson,
    parse_embedded_json,
    parse_json,
    parse_recorded_arguments,
    parse_tool_arguments,
)

SECRET = "sk-secret"


def nest(depth: int) -> str:
    return "[" * depth + "]" * depth


INVALID = {
    "nothing": ("", "syntax"),
    "a text cut short": (f'"{SECRET}', "syntax"),
    "more behind the value": (f'{{}} "{SECRET}"', "syntax"),
    "bytes that are not UTF-8": (SECRET.encode() + b"\xff", "syntax"),
    "NaN": ("[NaN]", "syntax"),
    "an infinite number": ("[1e999]", "syntax"),
    "more digits than are parsed": ("9" * (sys.get_int_max_str_digits() + 1), "syntax"),
    "one level too many": (nest(MAX_JSON_NESTING + 1), "too-deep"),
    "more levels than Python can parse": (nest(100_000), "too-deep"),
    "objects without an end": ('{"a":' * 100_000, "too-deep"),
    "more values than are read": ("[" + "1," * MAX_JSON_VALUES + "1]", "too-many"),
    "more empty lists than are read": ("[" + "[]," * MAX_JSON_VALUES + "1]", "too-many"),
    "an endless text of quotation marks": ('"' + '\\",' * MAX_JSON_VALUES, "syntax"),
    "more texts than are read": (
        '["' + "," * MAX_JSON_VALUES + '"' + '""' * 2 * MAX_JSON_VALUES,
        "too-many",
    ),
    "more than is read": (json.dumps(SECRET * 100), "too-large"),
}


@pytest.mark.parametrize(("raw", "reason"), INVALID.values(), ids=INVALID)
def test_json_out_of_bounds_is_refused_without_repeating_its_content(
    raw: str | bytes, reason: str
) -> None:
    with pytest.raises(InvalidJson) as failed:
        parse_json(raw, max_size=800 if reason == "too-large" else 3_000_000)
    assert failed.value.reason == reason
    assert SECRET not in str(failed.value)
    assert failed.value.__cause__ is None


def test_json_of_maximum_depth_is_parsed() -> None:
    assert json.dumps(parse_json(nest(MAX_JSON_NESTING))) == nest(MAX_JSON_NESTING)


def test_brackets_in_strings_do_not_count_as_nesting() -> None:
    assert parse_json(json.dumps(nest(1_000))) == nest(1_000)


def test_separators_in_strings_do_not_count_as_values() -> None:
    text = ',[{\\"' * MAX_JSON_VALUES
    assert parse_json(json.dumps([text, text])) == [text, text]


def test_error_for_nesting_too_deep_has_its_path() -> None:
    wide = [nest(2), *[1] * 100]
    with pytest.raises(InvalidJson) as failed:
        parse_json(f'{{"a":{json.dumps(wide)},"b":[0,{nest(MAX_JSON_NESTING)}]}}')
    assert failed.value.path == ("b", 1, *[0] * (MAX_JSON_NESTING - 2))


def test_json_value_embedded_in_text_is_parsed_to_its_end() -> None:
    text = f"It is {nest(2)}, not {nest(MAX_JSON_NESTING + 1)}"
    assert parse_embedded_json(text, 6) == ([[]], 10)
    with pytest.raises(InvalidJson, match="nested"):
        parse_embedded_json(text, text.rindex(" ") + 1)
    with pytest.raises(json.JSONDecodeError):
        parse_embedded_json(text, 0)


@pytest.mark.parametrize("escape", ["\\ud800", "\\uDFFF", "\\u0000"])
def test_character_that_no_event_can_hold_is_replaced_wherever_an_escape_says_it(
    escape: str,
) -> None:
    text = f'{{"a{escape}": ["b{escape}c", 1, null]}}'
    assert parse_json(text) == {"a\ufffd": ["b\ufffdc", 1, None]}
    assert parse_embedded_json(f"so {text}", 3)[0] == {"a\ufffd": ["b\ufffdc", 1, None]}
    assert parse_json(text, as_written=True) == json.loads(text)


def test_pair_of_surrogates_and_written_backslash_stay_as_they_are() -> None:
    assert parse_json('["\\ud83d\\ude00", "\\\\ud800"]') == ["\U0001f600", "\\ud800"]


def test_repeated_keys_of_tool_arguments_are_refused_and_recorded_ones_are_read_as_they_ran() -> (
    None
):
    for written in ('{"to": "a", "to": "b"}', '{"x": [{"to": 1, "to": 1}]}'):
        assert parse_tool_arguments(written) is None
    assert parse_tool_arguments('{"to": {"to": 1}}') == {"to": {"to": 1}}
    assert parse_recorded_arguments('{"to": "a", "to": "b"}') == {"to": "b"}
