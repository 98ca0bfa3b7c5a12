"""Checks of personal data against the table of hits and misses that the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from turnlog.projections.blueprint.personal_detail_finders import (
    find_cards,
    find_emails,
    find_ibans,
    find_phones,
)

PAGE = Path("docs/personal-data.md")

FINDERS = {"cards": find_cards, "ibans": find_ibans, "emails": find_emails, "phones": find_phones}
"""The checks in the order of the page's columns."""

ROW = re.compile(r"\| `([^`]+)`[^|]*\|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|")


def read_documented_rows() -> dict[str, list[str]]:
    """Return each text of the page's table with the checks that find something in it."""
    rows: dict[str, list[str]] = {}
    for line in PAGE.read_text().splitlines():
        if found := ROW.fullmatch(line):
            text, *marks = found.groups()
            names = zip(FINDERS, marks, strict=True)
            rows[text] = [name for name, mark in names if mark.strip() == "✓"]
    return rows


ROWS = read_documented_rows()


@pytest.mark.parametrize("text", ROWS)
def test_documented_text_is_found_by_the_checks_that_the_page_marks(text: str) -> None:
    for around in (text, f"{text}!", f"See: {text}, or so", f"({text})"):
        assert [name for name, find in FINDERS.items() if find(around)] == ROWS[text], around


def test_page_has_hits_and_misses_of_every_check() -> None:
    hits = [name for names in ROWS.values() for name in names]
    assert {name: hits.count(name) >= 4 for name in FINDERS} == dict.fromkeys(FINDERS, True)
    assert sum(not names for names in ROWS.values()) >= 20


def test_spans_cover_what_was_found_and_nothing_else() -> None:
    text = "4111 1111 1111 1111, 5555-5555-5555-4444; ada@example.com, DE89370400440532013000."
    found = {
        name: [text[each.begin : each.end] for each in FINDERS[name](text)] for name in FINDERS
    }
    assert found == {
        "cards": ["4111 1111 1111 1111", "5555-5555-5555-4444"],
        "ibans": ["DE89370400440532013000"],
        "emails": ["ada@example.com"],
        "phones": [],
    }


HOSTILE = ("4", "4 ", "4111 ", "a@", "a.b-", "DE89 ", "+1 ", "0 1", "a.", "(0", "@a-", "00 1")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_takes_no_quadratic_work(piece: str) -> None:
    text = f"{piece * (300_000 // len(piece))}@"  # Quadratic work on it would take hours.
    assert all(len(find(text)) < len(text) for find in FINDERS.values())
