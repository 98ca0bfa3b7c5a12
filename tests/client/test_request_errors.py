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
def test_error_names_field_and_fix_once(detail: str, line: str) -> None:
    assert str(RequestFailed(detail, code="invalid", field="text", fix="send a text")) == line


def test_error_without_field_or_fix_is_its_detail() -> None:
    assert str(RequestFailed("nobody answered")) == "no-answer: nobody answered"
