"""The one setting all events share: frozen, and tolerant of fields a later release adds."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Fact(BaseModel):
    """Something that happened, or a piece of it; it has no behaviour and never changes."""

    model_config = ConfigDict(frozen=True, extra="ignore")
