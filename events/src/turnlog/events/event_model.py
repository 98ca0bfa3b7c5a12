"""The base model of all events, and the discriminator for unions without a type field."""

from __future__ import annotations

from collections.abc import Callable, Container

from pydantic import BaseModel, ConfigDict


class EventModel(BaseModel):  # noqa: PLW1641 - pydantic gives what is frozen its hash
    """An immutable record: an event or a part of one, without behaviour.

    Unknown fields are ignored, so that an older release can read events of a later one.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    # Compare fields only: pydantic's `__eq__` checks more, and is hot when prompts are reproduced.
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)


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
        # `getattr` for a missing field takes 2.8 us on a pydantic model, and this 0.06 (`timeit`).
        field_names: Container[str] = getattr(piece, "__dict__", ())
        return next((name for word, name in tags if word in field_names), None)

    return tag
