"""History specs: which earlier turns a call includes, and the memory policy that limits them.

The memory policy is a file of the operator beside the blueprint, pinned when a session opens. Its
limits count messages: a question is one and its answer another, and the two are never separated.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from turnlog.projections.blueprint.schema.lookups.resolver_specs import LastReferenceSpec
from turnlog.projections.blueprint.schema.strict_model import Name, StrictModel

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
    last_reference: LastReferenceSpec = LastReferenceSpec()
    """Settings that replace those of `policies.references` in the blueprint."""

    def get_reader(self, name: MemoryReaderName) -> MemoryReaderSpec:
        """Return the limits of one reader."""
        return self.planner if name == "planner" else self.narrator


class MemoryFileSpec(StrictModel):
    """The file that contains the memory policy."""

    file: Annotated[str, Field(min_length=1)]
    """Its path, relative to the blueprint."""


DEFAULT_SUMMARY_TOKENS: Final = 4_000
"""Tokens above which a view is summarised where neither it nor a ladder says so."""


class SummarySpec(StrictModel):
    """When older turns are summarised, and by which call."""

    above_tokens: Annotated[int, Field(ge=1)] | None = None
    """Older turns are summarised once the view has more tokens than this. Without it, the limit is
    that of the ladder which lists the step `summarise`, or else 4,000.
    """
    keep_messages: Annotated[int, Field(ge=0)] = 6
    """Number of latest messages that are kept verbatim, in whole turns."""
    call: Name
    """The call that writes the summary; it includes the turns by a view with `of: selected`."""


CondenseMode = Literal["duplicates", "repeats"]
"""Which parts of a history are shortened."""


ReasoningMode = Literal["keep", "keep_all"]
"""What becomes of the reasoning before earlier replies."""


class HistoryViewSpec(StrictModel):
    """A view of the session's turns."""

    all: bool = False
    """True for the whole history, which is never trimmed; otherwise at most the latest 512 turns.
    """
    max_turns: Annotated[int, Field(ge=0, le=512)] | None = None
    """Maximum number of latest turns."""
    memory: MemoryReaderName | None = None
    """The memory reader whose limits apply; without one the memory policy is ignored."""
    like: Name | None = None
    """The view whose settings apply where this one sets none."""
    last_messages: Annotated[int, Field(ge=2, le=1024)] | None = None
    """Maximum number of latest messages, counted before any other filter. A turn has two messages
    and is included whole or not at all.
    """
    skip: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Texts without interest: a turn that contains only these is left out."""
    of: Literal["work", "selected"] | None = None
    """`work` includes, before each answer, its plan and its tool results. `selected`, for a call
    that summarises, includes the turns to be summarised.
    """
    summary: SummarySpec | None = None
    """When a model summarises the older turns; without it no summary is made."""
    condense: CondenseMode | None = None
    """What is shortened: paragraphs that are repeated later (`duplicates`), or one question that
    was asked repeatedly with different values (`repeats`).
    """
    reasoning: ReasoningMode | None = None
    """`keep` sends what the model reasoned before its replies back with them, to the same model,
    and `keep_all` also before those that came with tool calls; without it the reasoning of earlier
    turns is left out.
    """
