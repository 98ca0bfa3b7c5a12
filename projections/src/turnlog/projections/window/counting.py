"""Counting tokens. Every count says who counted and whether it is exact.

A message is counted as a whole, since that is what a model is sent; its tokens are then shared
out among its parts, so that the parts of a prompt add up to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, pairwise

from turnlog.events.manifest import Counter
from turnlog.projections.blueprint.budget import CharactersPerToken


def counter_name(spec: CharactersPerToken) -> Counter:
    """Name a counter for the record: `chars/4`."""
    return Counter(name=f"chars/{spec.chars_per_token}", exact=False)


def count(spec: CharactersPerToken, text: str) -> int:
    """Count the tokens of a text, rounding up.

    No text but the empty one is free: a window that holds so many tokens holds no more
    characters than they stand for, which is what bounds the state of a session.
    """
    return _rounded_up(spec, len(text))


def shares(spec: CharactersPerToken, texts: Iterable[str]) -> list[int]:
    """Count texts that stand one behind the other; together they are what the whole counts."""
    ends = accumulate((len(text) for text in texts), initial=0)
    return [_rounded_up(spec, end) - _rounded_up(spec, begin) for begin, end in pairwise(ends)]


def _rounded_up(spec: CharactersPerToken, characters: int) -> int:
    return -(-characters // spec.chars_per_token)
