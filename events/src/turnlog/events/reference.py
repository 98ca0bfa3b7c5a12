"""Events of references: what a turn was found to be about, and what later turns may mean by it.

A resolver answers outside of Turnlog; its word is recorded before any model is asked, so that a
prompt made of it can be had again. What it found is content like anything else that was said.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, JsonValue

from turnlog.events.content import Content
from turnlog.events.fact import Fact


class TurnResolved(Fact):
    """A resolver has said what a turn is about, and what can be answered without a model."""

    type: ClassVar[str] = "turnlog.turn-resolved.v1"
    leaf: ClassVar[str] = "turn"

    turn: int
    """The turn."""
    resolver: str
    """Who said so: the name it is registered by, or its host."""
    intent: str | None = None
    """What is wanted; none where nobody knows."""
    entity: str | None = None
    """What kind of thing it is about; none for a question that leads nowhere."""
    identifiers: dict[str, JsonValue] = Field(default_factory=dict)
    """Which one: those of the text first, then those that were inherited."""
    used: bool = False
    """Whether any was inherited from the last reference."""
    reason: str
    """Why one was inherited, or why none was."""
    results: Content
    """What was found, as JSON."""
    meta: dict[str, JsonValue] = Field(default_factory=dict)
    """About the results; kept and given out, never interpreted."""
    answer: Content
    """What is answered where no model answers."""


class ReferenceUpdated(Fact):
    """A turn was answered; what it was about is what later ones may mean without saying it."""

    type: ClassVar[str] = "turnlog.reference-updated.v1"
    leaf: ClassVar[str] = "memory"

    turn: int
    """The turn."""
    identifiers: dict[str, JsonValue]
    """Those that may be inherited."""
    intent: str | None = None
    """What was wanted of it."""
    entity: str | None = None
    """What kind of thing it is."""
