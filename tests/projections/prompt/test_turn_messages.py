"""Turn messages are cached within a bound, in any script."""

from __future__ import annotations

import pytest

from turnlog.projections.blueprint.token_counters import CharacterCounter
from turnlog.projections.prompt.history.turn_messages import (
    CACHE_SIZE,
    MAX_CACHED_BYTES,
    build_exchange,
    build_turn_messages,
)


@pytest.mark.parametrize(("letter", "most"), [("a", 2_800), ("\u0434", 1_400), ("\U0001f600", 700)])
def test_turn_messages_are_cached_up_to_a_maximum_size(letter: str, most: int) -> None:
    for length, remembered in ((most, True), (most + MAX_CACHED_BYTES // 4, False)):
        text, reply = letter * (length // 2), letter * (length - length // 2)
        assert (build_turn_messages(text, reply) is build_turn_messages(text, reply)) == remembered
        exchanges = [build_exchange(1, text, reply, CharacterCounter(4)) for _ in range(2)]
        assert (exchanges[0] is exchanges[1]) == remembered
    assert CACHE_SIZE * MAX_CACHED_BYTES < 16_000_000
