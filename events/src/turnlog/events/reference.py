from __future__ import annotations

from typing import ClassVar

from pydantic import Field, JsonValue

from turnlog.events.content import Content
from turnlog.events.fact import EventModel


class TurnResolved(EventModel):
    """A resolver stated what a turn is about, and what it can answer without a model."""

    type: ClassVar[str] = "turnlog.turn-resolved.v1"
    leaf: ClassVar[str] = "turn"

    turn: int
    """The turn number."""
    resolver: str
    """The resolver: its registered name, or its host."""
    intent: str | None = None
    """The intent of the turn; None if unknown."""
    entity: str | None = None
    """The kind of entity the turn is about; None if it concerns no entity."""
    identifiers: dict[str, JsonValue] = Field(default_factory=dict)
    """Identifiers of the entity: those in the text first, then inherited ones."""
    used: bool = False
    """Whether an identifier was inherited from the last reference."""
    reason: str
    """Why an identifier was or was not inherited."""
    results: Content
    """The results as JSON."""
    meta: dict[str, JsonValue] = Field(default_factory=dict)
    """Metadata of the results; stored and returned, never interpreted."""
    answer: Content
    """The answer used when no model answers."""


class ReferenceUpdated(EventModel):
    """A turn was answered; later turns may inherit what it was about."""

    type: ClassVar[str] = "turnlog.reference-updated.v1"
    leaf: ClassVar[str] = "memory"

    turn: int
    """The turn number."""
    identifiers: dict[str, JsonValue]
    """Identifiers that later turns may inherit."""
    intent: str | None = None
    """The intent of the turn."""
    entity: str | None = None
    """The kind of entity."""
