"""Memory policy as an operator writes it: what of a session's turns later ones are told.

It is a file beside the blueprint, pinned when a session opens. Limits count messages as they are
told, a question being one and its answer another; the two are never parted.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.projections.blueprint.strict import Strict

Limit = Annotated[int, Field(ge=0)]
"""At most so many; 0 is without end."""
ReaderName = Literal["planner", "narrator"]
"""Who is told: the resolver, or the call that words the answer."""


class Reader(Strict):
    """What one reader of the memory is told of it; never more than the policy itself allows."""

    enabled: bool = True
    """Whether it is told anything."""
    max_turns: Limit = 0
    """At most so many messages."""
    max_chars: Limit = 0
    """At most so many characters."""
    allowed_entities: tuple[str, ...] = ()
    """Of which entity a turn must be for it to be told; empty for any."""
    denied_entities: tuple[str, ...] = ()
    """Of which entity a turn must not be."""

    def allows(self, entity: str | None) -> bool:
        """Tell whether a turn of this entity may be told of earlier ones."""
        if entity in self.denied_entities:
            return False
        return not self.allowed_entities or entity in self.allowed_entities


class MemoryPolicy(Strict):
    """What is remembered of a session's turns, how long, and who is told."""

    enabled: bool = False
    """Whether anything is; the record keeps everything either way."""
    max_turns: Limit = 8
    """At most so many messages, each question and each answer being one."""
    ttl_seconds: Limit = 3_600
    """No message older than this."""
    max_chars: Limit = 8_000
    """At most so many characters."""
    planner: Reader = Reader(max_turns=4)
    """What the resolver is told."""
    narrator: Reader = Reader()
    """What the model that words the answer is told."""

    def reader(self, name: ReaderName) -> Reader:
        """Give the block of a reader."""
        return self.planner if name == "planner" else self.narrator


class MemorySpec(Strict):
    """Where the memory policy is."""

    file: Annotated[str, Field(min_length=1)]
    """Its path beside the blueprint."""
