"""Which names of a request an error repeats."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.sent_names import quote_sent_name


@pytest.mark.parametrize("name", ["locale", "größe", "player.name-2", "attribute[x]", "x" * 64])
def test_misspelt_name_is_repeated(name: str) -> None:
    assert quote_sent_name(name) == repr(name)


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "a@b", "a12345", "٤١١١١", "a\n", "\ud800"])
def test_text_that_does_not_look_like_a_name_is_not_repeated(name: str) -> None:
    assert quote_sent_name(name) == f"({len(name)} characters)"
