"""Counting tokens. Every count says who counted and whether it is exact."""

from __future__ import annotations

from turnlog.events.manifest import Counter
from turnlog.projections.blueprint.schema import CharactersPerToken


def counter_name(spec: CharactersPerToken) -> Counter:
    """Name a counter for the record: `chars/4`."""
    return Counter(name=f"chars/{spec.chars_per_token}", exact=False)


def count(spec: CharactersPerToken, characters: int) -> int:
    """Count the tokens of a text of so many characters, rounding up.

    No text but the empty one is free: a window that holds so many tokens holds no more
    characters than they stand for, which is what bounds the state of a session.
    """
    return -(-characters // spec.chars_per_token)
