"""Telling the forms of a union apart by the one word only that form has.

So no field is spent on saying which form it is, and a form reads as what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Container


def form_by(*words: str) -> Callable[[object], str | None]:
    """Give a discriminator: the tag of a form is the first of `words` it has, in brackets.

    In brackets, so that no place in an error reads like a word of an author.
    """
    tags = tuple((word, f"({word})") for word in words)

    # Asked of every text and every part of a prompt that is read: hence plain loops.
    def tag(piece: object) -> str | None:
        if isinstance(piece, dict):
            for word, name in tags:
                if word in piece:
                    return name
            return None
        # A model takes long to say that it lacks a field
        held: Container[str] = getattr(piece, "__dict__", ())
        return next((name for word, name in tags if word in held), None)

    return tag
