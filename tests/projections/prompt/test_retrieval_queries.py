"""What a retrieval searches for."""

from __future__ import annotations

from turnlog.projections.blueprint.schema.lookups.retrieval_specs import (
    InputQueries,
    PatternQueries,
)
from turnlog.projections.prompt.sources.retrieval_queries import (
    MAX_QUERIES,
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
