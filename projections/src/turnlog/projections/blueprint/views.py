from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.projections.blueprint.memory import MemoryReaderName
from turnlog.projections.blueprint.strict import Name, StrictModel


class SummarySpec(StrictModel):
    """When older turns are summarised, and by which call."""

    above_tokens: Annotated[int, Field(ge=1)] = 4_000
    """Older turns are summarised once the view has more tokens than this."""
    keep_messages: Annotated[int, Field(ge=0)] = 6
    """Number of latest messages that are kept verbatim, in whole turns."""
    call: Name
    """The call that writes the summary; it includes the turns by a view with `of: selected`."""


CondenseMode = Literal["duplicates", "repeats"]
"""Which parts of a history are shortened."""


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
