"""The base models of events, and the discriminator for unions without a type field.

The class of an event declares its type on the wire, the leaf of its subject and, for an event of a
session, the sentence that describes it on a terminal and on the page: a template, whose form is
that of `turnlog.services.api.event_sentences`.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class EventModel(BaseModel):  # noqa: PLW1641 - pydantic gives what is frozen its hash
    """An immutable record: an event or a part of one, without behaviour.

    Unknown fields are ignored, so that an older release can read events of a later one.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    # Compare fields only: pydantic's `__eq__` checks more, and is hot when prompts are reproduced.
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)


class StatelessEvent(EventModel):
    """An event that changes nothing in the state by which commands are decided."""


class ReplyTextEvent(EventModel):
    """An event of a turn with texts that are withheld where the reply of the turn is."""

    reply_texts: ClassVar[tuple[str, ...]]
    """The names of the fields: a `Content` is replaced, and any other text emptied."""

    turn: int
    """The turn number."""


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
