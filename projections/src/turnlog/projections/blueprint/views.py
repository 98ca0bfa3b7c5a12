"""Views of the turns as an author writes them: which turns a call shows, and what in short."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from turnlog.projections.blueprint.memory import ReaderName
from turnlog.projections.blueprint.strict import Name, Strict


class SummarySpec(Strict):
    """When older turns are summed up, and by which call."""

    above_tokens: Annotated[int, Field(ge=1)] = 4_000
    """More than so many tokens of the view, and the older turns are summed up."""
    keep_messages: Annotated[int, Field(ge=0)] = 6
    """So many of the latest messages stay word for word, in whole turns."""
    call: Name
    """The call that sums up; it shows the turns by a view that is `of: selected`."""


Condense = Literal["duplicates", "repeats"]
"""What of a history can be told in short."""


class History(Strict):
    """A view of the session's turns."""

    all: bool = False
    """Whether it is the whole history, never cut; otherwise no more than the latest 512 turns."""
    max_turns: Annotated[int, Field(ge=0, le=512)] | None = None
    """At most so many of the latest turns."""
    memory: ReaderName | None = None
    """Which block of the memory policy bounds it; without one, none does."""
    like: Name | None = None
    """The view whose words hold where this one says none."""
    last_messages: Annotated[int, Field(ge=2, le=1024)] | None = None
    """At most so many of the latest messages, counted before anything else is left out; a turn has
    two, and is shown whole or not at all."""
    skip: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Texts of no interest: a turn in which nothing else was said is left out."""
    of: Literal["work", "selected"] | None = None
    """`work` to tell, before each answer, what was planned for it and what tools gave; `selected`,
    of a call that sums up, for the turns it is asked to sum up."""
    summary: SummarySpec | None = None
    """When a model sums up its older turns; without it, none does."""
    condense: Condense | None = None
    """What is told in short: paragraphs that are said again later, or one question that was asked
    over and over with other values."""
