"""What a retrieval searches for."""

from __future__ import annotations

import time

import pytest

from turnlog.projections.blueprint.schema.lookups.retrieval_specs import (
    MAX_QUERIES,
    CallQueries,
    InputQueries,
    PatternQueries,
)
from turnlog.projections.prompt.sources.retrieval_queries import (
    MAX_QUERY_CHARACTERS,
    RetrievalQueries,
    build_queries,
)

DIFF = "diff --git a b\n@@ -1 +1 @@\n+one\n\n@@ -9 +9 @@\n-two\n"

HUNKS = PatternQueries(pattern="^@@ ")


def test_the_text_of_the_turn_is_the_query_where_the_blueprint_says_nothing() -> None:
    assert build_queries(None, " Which? ", {}) == RetrievalQueries((" Which? ",), "text")
    assert len(build_queries(None, "x" * 9_000, {}).texts[0]) == MAX_QUERY_CHARACTERS


def test_each_hunk_of_a_diff_is_a_query_and_its_header_is_none() -> None:
    pieces = ("@@ -1 +1 @@\n+one", "@@ -9 +9 @@\n-two")
    assert build_queries(HUNKS, DIFF, {}) == RetrievalQueries(pieces, "pattern")
    spec = PatternQueries(pattern="^@@ ", input="diff")
    assert build_queries(spec, "Review it.", {"diff": DIFF}).texts == pieces


def test_each_item_of_an_input_is_a_query() -> None:
    spec = InputQueries(input="topics")
    found = build_queries(spec, "Hi", {"topics": ["a", {"x": "b", "n": 2}, " ", "a"]})
    assert found == RetrievalQueries(("a", "b\n2"), "input")
    assert build_queries(spec, "Hi", {"topics": "one"}).texts == ("one",)


def test_the_text_of_the_turn_is_the_query_where_there_is_no_other() -> None:
    whole = RetrievalQueries(("Hi",), "text")
    assert build_queries(HUNKS, "Hi", {}) == whole
    assert build_queries(InputQueries(input="topics"), "Hi", {"topics": []}) == whole


def test_queries_beyond_the_limit_are_counted() -> None:
    text = "\n".join(f"@@ {number}" for number in range(MAX_QUERIES + 3))
    found = build_queries(HUNKS, text, {})
    assert (len(found.texts), found.unsearched) == (MAX_QUERIES, 3)


@pytest.mark.parametrize(
    "answer",
    [
        '["free berth", "fees"]',
        '{"queries": ["free berth", "fees"]}',
        'Here they are:\n```json\n["free berth", "fees"]\n```',
        '["free berth", "fees",]',
        '["free berth", "fees"] I hope it helps.',
        "<think>What of [this]?</think>free berth\nfees",
        "- free berth\n* fees\n",
        "1. free berth\n2) fees",
        "```\nfree berth\n\nfees\n```",
    ],
)
def test_queries_of_an_answer_are_a_list_or_one_a_line(answer: str) -> None:
    spec = CallQueries(call="query")
    found = build_queries(spec, "Hi", {}, answer)
    assert found == RetrievalQueries(("free berth", "fees"), "call")


@pytest.mark.parametrize("answer", ["", " \n", "[]", "{}", "[1, 2]", '{"queries": []}'])
def test_the_text_of_the_turn_is_the_query_where_an_answer_has_none(answer: str) -> None:
    spec = CallQueries(call="query")
    assert build_queries(spec, "Hi", {}, answer) == RetrievalQueries(("Hi",), "text")


def test_queries_of_an_answer_are_bounded_in_number_and_length() -> None:
    spec = CallQueries(call="query", at_most=2)
    found = build_queries(spec, "Hi", {}, "a\nb\na\nc\n")
    assert found == RetrievalQueries(("a", "b"), "call", unsearched=1)
    (long,) = build_queries(spec, "Hi", {}, "x" * 9_000).texts
    assert len(long) == MAX_QUERY_CHARACTERS
    assert build_queries(spec, "Hi", {}, "it is [2024] here").texts == ("it is [2024] here",)


def test_only_the_beginning_of_a_line_may_be_the_mark_of_a_list() -> None:
    lines = ("price of A - B", "use of 3. floor", "1.5 metres * 2", "-5 degrees")
    found = build_queries(CallQueries(call="query"), "Hi", {}, "\n".join(lines))
    assert found.texts == lines
    found = build_queries(CallQueries(call="query"), "Hi", {}, "  - 3 - 4\n\t2. A - B")
    assert found.texts == ("3 - 4", "A - B")


def test_long_blanks_in_an_answer_are_read_in_linear_time() -> None:
    began = time.perf_counter()
    found = build_queries(CallQueries(call="query"), "Hi", {}, f"x{' ' * 100_000}y")
    assert len(found.texts) == 1
    assert time.perf_counter() - began < 1
