"""Turn messages are cached within a bound, in any script."""

from __future__ import annotations

import pytest

from turnlog.projections.window.counting import ByCharacters
from turnlog.projections.window.spoken import REMEMBERED, SHORT, exchange, spoken


@pytest.mark.parametrize(("letter", "most"), [("a", 2_800), ("\u0434", 1_400), ("\U0001f600", 700)])
def test_the_words_of_a_turn_are_remembered_up_to_so_many_bytes(letter: str, most: int) -> None:
    for length, remembered in ((most, True), (most + SHORT // 4, False)):
        text, reply = letter * (length // 2), letter * (length - length // 2)
        assert (spoken(text, reply) is spoken(text, reply)) == remembered
        said = [exchange(1, text, reply, ByCharacters(4)) for _ in range(2)]
        assert (said[0] is said[1]) == remembered
    assert REMEMBERED * SHORT < 16_000_000
