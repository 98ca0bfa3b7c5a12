"""Events of the memory family: what a session's windows no longer tell turn by turn.

Nothing is taken away by any of them. A summary stands in place of turns for as long as nobody
undoes it, and a purge leaves turns out of windows; the record keeps both the turns and the words.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from turnlog.events.call import Cost
from turnlog.events.content import Content, Digest
from turnlog.events.fact import Fact


class TurnRange(Fact):
    """Turns that follow each other."""

    first: int
    """The first of them."""
    last: int
    """The last of them."""


class SummaryBegun(Fact):
    """A view of the history has become too long; the open turn goes on once a summary is had."""

    type: ClassVar[str] = "turnlog.summary-begun.v1"
    leaf: ClassVar[str] = "memory"

    turn: int
    """The turn that goes on behind it."""
    view: str
    """The blueprint's name for the view."""
    turns: tuple[TurnRange, ...]
    """What it is to stand for, the turns of the former summary included."""
    former: int | None = None
    """Sequence of the summary that it takes in; none where there is none to take in."""
    characters: int
    """Length of the texts that it is made from, in code points."""


class HistorySummarised(Fact):
    """A model has summed up the older turns of a view; its words stand there in their place."""

    type: ClassVar[str] = "turnlog.history-summarised.v1"
    leaf: ClassVar[str] = "memory"

    turn: int
    """The turn that goes on behind it."""
    call: str
    """The call that answered it."""
    view: str
    """The blueprint's name for the view."""
    summary: Content
    """What prompts say in place of the turns."""
    turns: tuple[TurnRange, ...]
    """What it stands for, the turns of the former summary included."""
    former: int | None = None
    """Sequence of the summary that it took in; none where there was none."""
    phases: tuple[str, ...] = ()
    """The phases those turns were said in, and the one it was made in; it stands only where all of
    them may be seen."""
    inputs: Digest
    """Digest of the request that it is the answer to."""
    model: str
    """The model as litellm was told it."""
    cost: Cost
    """Money of the attempt that answered."""


class SummaryFailed(Fact):
    """A summary could not be had; the turn goes on without, and the next one may try again."""

    type: ClassVar[str] = "turnlog.summary-failed.v1"
    leaf: ClassVar[str] = "memory"

    turn: int
    """The turn that goes on behind it."""
    view: str
    """The blueprint's name for the view."""
    code: str
    """Why, in one word: what its call failed of, `empty`, `no-shorter`, `withdrawn`."""
    detail: str
    """For people."""


class SummaryUndone(Fact):
    """A summary stands no more; what it stood for stands again as it did before."""

    type: ClassVar[str] = "turnlog.summary-undone.v1"
    leaf: ClassVar[str] = "memory"

    sequence: int
    """Sequence of the event that holds it."""
    view: str
    """The blueprint's name for the view."""
    cause: Literal["asked", "excluded", "redacted"] = "asked"
    """Whether somebody asked for it, or it told of a turn that was taken back."""
    turn: int | None = None
    """That turn."""


class MemoryPurged(Fact):
    """No window shows any of the turns so far; the next call is told as if it were the first."""

    type: ClassVar[str] = "turnlog.memory-purged.v1"
    leaf: ClassVar[str] = "memory"

    upto: int
    """The last of those turns."""
