"""Patterns of blueprints, searched in texts that strangers write."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnlog.projections.blueprint.linear_patterns import (
    MATCH_REACH,
    compile_pattern,
    find_pattern_fault,
)
from turnlog.projections.blueprint.storable_json import JsonObject
from turnlog.projections.structured_output.schema_validation import (
    find_schema_fault,
    find_violation,
)

CONTACT_DETAILS: Final = r"\b\d{8,}\b|\S+@\S+\.\w+"
"""The rule of the shipped tutor."""

LONGEST_REPLY: Final = 900_000


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (CONTACT_DETAILS, "@" * LONGEST_REPLY),
        (CONTACT_DETAILS, "a@" * (LONGEST_REPLY // 2)),
        (r"(a+)+$", "a" * LONGEST_REPLY + "!"),
        (r"(x+x+)+y", "x" * LONGEST_REPLY),
        (r"(\w+\s?)*\.$", "word " * (LONGEST_REPLY // 5)),
        (r"(?s)BEGIN.*.*.*END", "BEGIN " * (LONGEST_REPLY // 6)),
    ],
)
def test_no_text_makes_a_pattern_search_take_exponential_time(pattern: str, text: str) -> None:
    """Each of these runs for hours, or for ever, with an engine that backtracks."""
    assert not compile_pattern(pattern).has_match(text)


@pytest.mark.parametrize(
    ("pattern", "reason", "fix"),
    [
        ("(?=a)b", "look-ahead and look-behind", "match the words around it"),
        ("(?<!a)b", "look-ahead and look-behind", "match the words around it"),
        (r"(a)\1", "backreferences cannot", "write the repeated part out"),
        ("(a{40}){40}", "its repetitions add up to more than 500", "use `*` or `+`"),
        (r"(?i)\w{450}", "it is too large once compiled", "use `*` or `+`"),
        ("a" * 5_001, "it is longer than 5000 characters", "write several rules"),
        ("(", "it is no pattern: unclosed group", "write a regular expression"),
        ("(?x)a # and so on", "it is no pattern: unclosed group", "write a regular expression"),
    ],
)
def test_unsupported_pattern_is_refused_with_reason_and_fix(
    pattern: str, reason: str, fix: str
) -> None:
    fault = find_pattern_fault(pattern)
    assert fault is not None
    assert (fault.reason[: len(reason)], fault.fix[: len(fix)]) == (reason, fix)


FULL_WIDTH: Final = "".join(chr(0xFF10 + digit) for digit in range(8))


@pytest.mark.parametrize("pattern", ["a{" + "9" * 4_400 + "}", "a{1," + "9" * 4_400 + "}"])
def test_count_of_more_digits_than_python_reads_is_refused(pattern: str) -> None:
    assert (fault := find_pattern_fault(pattern))
    assert "repetitions add up" in fault.reason


@pytest.mark.parametrize("word", ["žmogus", "Ärger", "Ёлка", "12345678", FULL_WIDTH])
def test_word_and_digit_classes_match_all_scripts(word: str) -> None:
    text = f"So: {word}."
    for pattern in (rf"\b{word}\b", rf"(?i)\b{word.lower()}\b", r"So: \w{4,}\."):
        assert compile_pattern(pattern).has_match(text) is bool(re.search(pattern, text)), pattern


ANCHORED: Final = ("^a", "a$", r"\bab\b", "(?m)^b$", r"\Aa|b\z", "a{3}b", r"x\b.\bx")

UNITS: Final = ("a", "b", "ab", "a b", "aaab", "\n", "x x", "é")


@pytest.mark.slow("many generated cases are tried")
@given(
    st.sampled_from(ANCHORED),
    st.lists(st.tuples(st.sampled_from(UNITS), st.integers(1, 3_000)), min_size=1, max_size=6),
)
def test_search_in_slices_matches_like_a_search_in_the_whole_text(
    pattern: str, runs: list[tuple[str, int]]
) -> None:
    text = "".join(unit * times for unit, times in runs)
    compiled = compile_pattern(pattern)
    assert compiled.slice_length > len(text) or len(text) > LONGEST_REPLY // 10
    sliced = replace(compiled, slice_length=MATCH_REACH + 1)
    assert sliced.has_match(text) is compiled.has_match(text)


def test_schema_pattern_is_matched_in_linear_time() -> None:
    hostile = "a" * 200_000 + "!"
    schema: JsonObject = {"type": "string", "pattern": "^(a+)+$"}
    assert (found := find_violation(hostile, schema))
    assert found.rule == '`pattern` is "^(a+)+$"'
    assert find_violation("aaa", schema) is None
    named: JsonObject = {
        "patternProperties": {"^(a+)+$": {"type": "integer"}},
        "additionalProperties": False,
    }
    assert find_violation({"aa": 1}, named) is None
    assert (wrong := find_violation({"aa": "one"}, named))
    assert wrong.path == ("aa",)
    assert (other := find_violation({hostile: 1}, named))
    assert other.rule == "`additionalProperties` is false"


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": {"a": {"pattern": "(?=a)b"}}}, "its pattern '(?=a)b' cannot be used: look"),
        ({"patternProperties": {"(a)\\1": {}}}, "its pattern '(a)\\\\1' cannot be used: backref"),
        ({"patternProperties": {"a": {}}, "unevaluatedProperties": False}, "it has `patternProp"),
    ],
)
def test_schema_with_a_backtracking_pattern_is_refused(schema: JsonObject, message: str) -> None:
    assert (find_schema_fault(schema) or "").startswith(message)
