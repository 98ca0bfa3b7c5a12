"""History specs: which earlier turns a call includes, and the memory policy that limits them.

The memory policy is a file of the operator beside the blueprint, pinned when a session opens. Its
limits count messages: a question is one and its answer another, and the two are never separated.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.projections.blueprint.strict import StrictModel

MemoryLimit = Annotated[int, Field(ge=0)]
"""An upper limit; 0 means no limit."""
MemoryReaderName = Literal["planner", "narrator"]
"""The reader of the memory: the resolver (`planner`), or the call that writes the answer
(`narrator`).
"""


class MemoryReaderSpec(StrictModel):
    """The limits for one reader of the memory, within those of the policy."""

    enabled: bool = True
    """True if the reader gets any memory."""
    max_turns: MemoryLimit = 0
    """Maximum number of messages."""
    max_chars: MemoryLimit = 0
    """Maximum number of characters."""
    allowed_entities: tuple[str, ...] = ()
    """Entities whose turns get memory; empty allows all."""
    denied_entities: tuple[str, ...] = ()
    """Entities whose turns get no memory."""

    def is_entity_allowed(self, entity: str | None) -> bool:
        """Return whether a turn about this entity may include earlier turns."""
        if entity in self.denied_entities:
            return False
        return not self.allowed_entities or entity in self.allowed_entities


class MemoryPolicy(StrictModel):
    """What is remembered of a session's turns, for how long, and for which reader."""

    enabled: bool = False
    """True if anything is remembered; the event log records everything either way."""
    max_turns: MemoryLimit = 8
    """Maximum number of messages; a question and its answer count as two."""
    ttl_seconds: MemoryLimit = 3_600
    """Maximum age of a message in seconds."""
    max_chars: MemoryLimit = 8_000
    """Maximum number of characters."""
    planner: MemoryReaderSpec = MemoryReaderSpec(max_turns=4)
    """Limits for the resolver."""
    narrator: MemoryReaderSpec = MemoryReaderSpec()
    """Limits for the model call that writes the answer."""

    def get_reader(self, name: MemoryReaderName) -> MemoryReaderSpec:
        """Return the limits of one reader."""
        return self.planner if name == "planner" else self.narrator


class MemoryFileSpec(StrictModel):
    """The file that contains the memory policy."""

    file: Annotated[str, Field(min_length=1)]
    """Its path, relative to the blueprint."""
