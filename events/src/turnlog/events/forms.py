"""Telling the forms of a union apart by the one word only that form has.

So no field is spent on saying which form it is, and a form reads as what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial


def form_by(*words: str) -> Callable[[object], str | None]:
    """Give a discriminator: the tag of a form is the first of `words` it has, in brackets.

    In brackets, so that no place in an error reads like a word of an author.
    """

    def tag(piece: object) -> str | None:
        has = piece.__contains__ if isinstance(piece, Mapping) else partial(hasattr, piece)
        return next((f"({word})" for word in words if has(word)), None)

    return tag
