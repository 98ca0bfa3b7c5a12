"""The map of requirements is true: each named test is there, and no row's test is missing."""

from __future__ import annotations

import re

import pytest

from tests.docs.code_names import list_code_words, list_table_rows
from tests.docs.doc_pages import ROOT

ROWS = list_table_rows((ROOT / "docs/requirements.md").read_text())

SHIPPED_FOLDERS = (
    "tests/e2e/consumers/",
    "tests/e2e/watching/",
    "tests/agent_programs/shipped/",
    "tests/layered_prompts/",
    "tests/resolvers/",
    "tests/segment_budgets/",
)
"""Folders of tests that drive the shipped blueprints over HTTP."""

_ROW_TEST = re.compile(r"def test_([taupx][0-9]+)_")


def find_row_tests() -> set[tuple[str, str]]:
    """Return row and file of each test that has a row in its name."""
    return {
        (row.upper(), str(file.relative_to(ROOT)))
        for file in (ROOT / "tests").rglob("*.py")
        for row in _ROW_TEST.findall(file.read_text())
    }


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_each_named_file_exists(row: list[str]) -> None:
    files = list_code_words(f"{row[2]} {row[3]}")
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_row_lists_exactly_the_files_with_tests_named_after_it() -> None:
    named = {(row, file) for row, _, shown, _ in ROWS for file in list_code_words(shown)}
    found = {(row, file) for row, file in find_row_tests() if file.startswith(SHIPPED_FOLDERS)}
    assert named == found


def test_every_other_test_of_a_row_is_listed_as_mechanism() -> None:
    named = {(row, file) for row, _, _, other in ROWS for file in list_code_words(other)}
    found = {(row, file) for row, file in find_row_tests() if not file.startswith(SHIPPED_FOLDERS)}
    assert found - named == set()
