"""Counting tokens. Every count says who counted and whether it is exact."""

from __future__ import annotations

from turnlog.events.manifest import Counter
from turnlog.projections.blueprint.schema import CharactersPerToken


def counter_name(spec: CharactersPerToken) -> Counter:
    """Name a counter for the record: `chars/4`, rounding up unless it says so."""
    rounding = "" if spec.round == "up" else " down"
    return Counter(name=f"chars/{spec.chars_per_token}{rounding}", exact=False)


def count(spec: CharactersPerToken, characters: int) -> int:
    """Count the tokens of a text of so many characters."""
    whole, rest = divmod(characters, spec.chars_per_token)
    return whole + (rest > 0 and spec.round == "up")
