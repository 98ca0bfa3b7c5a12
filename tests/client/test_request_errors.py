"""What an error of the client says in one line."""

from __future__ import annotations

import pytest

from turnlog.client import RequestFailed


@pytest.mark.parametrize(
    ("detail", "line"),
    [
        ("it is empty", "invalid: text: it is empty; send a text"),
        ("text: it is empty", "invalid: text: it is empty; send a text"),
        ("text: it is empty; send a text", "invalid: text: it is empty; send a text"),
    ],
)
def test_an_error_names_the_field_and_the_fix_once(detail: str, line: str) -> None:
    assert str(RequestFailed(detail, code="invalid", field="text", fix="send a text")) == line


def test_an_error_without_a_field_or_a_fix_is_its_detail() -> None:
    assert str(RequestFailed("nobody answered")) == "no-answer: nobody answered"
