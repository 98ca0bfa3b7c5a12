from __future__ import annotations

from collections.abc import Callable, Container


def build_discriminator(*words: str) -> Callable[[object], str | None]:
    """Return a discriminator that picks a union member by the first of `words` found as a field.

    The members then need no type field. Tags are in brackets, so that they cannot be mistaken for
    an author's field name in error messages.
    """
    tags = tuple((word, f"({word})") for word in words)

    # Called for every text and every part of a prompt that is read, so plain loops.
    def tag(piece: object) -> str | None:
        if isinstance(piece, dict):
            for word, name in tags:
                if word in piece:
                    return name
            return None
        # `getattr` for a missing field is slow on pydantic models.
        held: Container[str] = getattr(piece, "__dict__", ())
        return next((name for word, name in tags if word in held), None)

    return tag
