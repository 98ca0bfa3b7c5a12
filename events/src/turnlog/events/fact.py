"""The one setting all events share: frozen, and tolerant of fields a later release adds."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Fact(BaseModel):  # noqa: PLW1641 - pydantic gives what is frozen its hash
    """Something that happened, or a piece of it; it has no behaviour and never changes."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    # A fact is its fields. Pydantic looks for more, in each part of each prompt that is had again
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)
