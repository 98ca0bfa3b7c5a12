"""The page on scripts names every field of a reply, and every code that a reply may fail with."""

from __future__ import annotations

import re
from typing import get_args

from tests.docs.doc_pages import ROOT
from turnlog.services.worker.model.model_types import RETRYABLE_CODES, FailureCode
from turnlog.services.worker.model.scripted_model import SHIPPED_SCRIPTS, ScriptedReply

PAGE = (ROOT / "docs/scripts.md").read_text()


def test_table_of_scripts_has_every_field_of_a_reply() -> None:
    section = PAGE.partition("## Which reply")[2].partition("\n1. ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(
        ScriptedReply.model_fields
    )


def test_page_on_scripts_has_every_failure_code_by_whether_it_is_retried() -> None:
    section = PAGE.partition("`fail` takes the codes")[2].partition("What was written")[0]
    retried, _, others = section.partition("are retried;")
    assert set(re.findall(r"`(\w+)`", retried)) == RETRYABLE_CODES
    assert set(re.findall(r"`(\w+)`", others)) == set(get_args(FailureCode)) - RETRYABLE_CODES


def test_page_on_scripts_names_the_shipped_ones() -> None:
    (names,) = re.findall(r"or one that ships: (.*?)\. Your own", PAGE, re.DOTALL)
    assert set(re.findall(r"`([\w-]+)`", names)) == {
        path.stem for path in SHIPPED_SCRIPTS.glob("*.yaml")
    }
