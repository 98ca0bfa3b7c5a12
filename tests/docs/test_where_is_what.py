"""The maps of the code are true: every file they name exists and defines the names beside it."""

from __future__ import annotations

import re

import pytest

from tests.docs.code_names import (
    expand_path,
    list_code_words,
    list_defined_names,
    list_product_names,
    list_table_rows,
)
from tests.docs.doc_pages import ROOT

MAP = (ROOT / "docs/where-is-what.md").read_text()

GLOSSARY, PUBLISHED = (ROOT / "docs/glossary.md").read_text().split("## Published words")

QUESTIONS = list_table_rows(MAP)

TERMS = list_table_rows(GLOSSARY)


@pytest.mark.parametrize(
    ("question", "file", "names"), QUESTIONS, ids=[row[0] for row in QUESTIONS]
)
def test_file_of_a_question_defines_the_names_on_the_map(
    question: str, file: str, names: str
) -> None:
    (path,) = list_code_words(file)
    module = expand_path(path)
    assert module.exists(), f"{question} {path} does not exist"
    assert set(list_code_words(names)) - list_defined_names(module) == set()


def test_map_answers_at_least_thirty_distinct_questions() -> None:
    questions = [row[0] for row in QUESTIONS]
    assert len(questions) >= 30
    assert len(set(questions)) == len(questions)


@pytest.mark.parametrize("row", TERMS, ids=[row[0] for row in TERMS])
def test_names_of_a_term_are_defined_in_the_code(row: list[str]) -> None:
    _, code, meaning = row
    names = {word for word in list_code_words(code) if re.fullmatch(r"\w+", word)}
    assert meaning
    assert names - list_product_names() == set()


def test_glossary_has_every_term_once() -> None:
    terms = [term.strip() for row in TERMS for term in row[0].split(",")]
    assert sorted({term for term in terms if terms.count(term) > 1}) == []


def test_published_words_name_the_place_of_their_publication() -> None:
    rows = list_table_rows(PUBLISHED)
    assert len(rows) >= 15
    assert all(len(row) == 3 and all(row) for row in rows)


def test_every_make_command_of_the_contributing_page_is_a_rule() -> None:
    rules = set(re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"\bmake ([a-z-]+)", (ROOT / "CONTRIBUTING.md").read_text())
    assert {"check", "test"} <= set(named)
    assert set(named) - rules == set()
