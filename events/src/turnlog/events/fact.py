"""The base model of all events, and the discriminator for unions without a type field."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class EventModel(BaseModel):  # noqa: PLW1641 - pydantic gives what is frozen its hash
    """An immutable record: an event or a part of one, without behaviour.

    Unknown fields are ignored, so that an older release can read events of a later one.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    # Compare fields only: pydantic's `__eq__` checks more, and is hot when prompts are reproduced.
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)
