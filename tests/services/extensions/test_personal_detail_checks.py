"""The checks of personal details as blueprints name them."""

from __future__ import annotations

import pytest

from turnlog.services.extensions.plugins import load_check

TEXTS = {
    "cards": "4111 1111 1111 1111",
    "ibans": "DE89 3704 0044 0532 0130 00",
    "emails": "ada@example.com",
    "phones": "+49 172 1234567",
}


@pytest.mark.parametrize("name", TEXTS)
def test_registered_check_names_the_kind_and_never_quotes_the_text(name: str) -> None:
    check = load_check(name)
    reason = check(f"It is {TEXTS[name]}.", None)
    assert isinstance(reason, str)
    assert not set("0123456789@") & set(reason)
    assert check("It is nothing of the kind.", None) is None
