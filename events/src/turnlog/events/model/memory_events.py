"""Events of the memory family: summaries and purges of a session's history.

These events remove nothing. A summary replaces turns in a view until it is undone, and a purge
excludes turns from windows. The log keeps all turns and texts.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from turnlog.events.content import Content, WordDigest
from turnlog.events.event_model import EventModel
from turnlog.events.model.attempt_figures import AttemptCost
from turnlog.events.model.manifest import AppliedTrimStep


class TurnRange(EventModel):
    """Consecutive turns."""

    first: int
    """The first turn."""
    last: int
    """The last turn."""


class SummaryTrigger(EventModel):
    """The size that made a summary due, after the ladder steps that come before it."""

    of: Literal["view", "component", "prompt"]
    """What was measured: the view, the component `history`, or the whole prompt of the next call.
    """
    tokens: int
    """Its tokens after those steps."""
    limit: int
    """The tokens that it may have."""
    steps: tuple[AppliedTrimStep, ...] = ()
    """The steps that shortened it before, in order."""


class SummaryBegun(EventModel):
    """A view of the history is too long; the open turn waits for a summary."""

    type: ClassVar[str] = "turnlog.summary-begun.v1"
    leaf: ClassVar[str] = "memory"
    sentence: ClassVar[str] = (
        "{view}: summarising {turns|turns}"
        "[ · {trigger.of} of {trigger.tokens} tokens, above {trigger.limit}]"
    )

    turn: int
    """The turn that continues after the summary."""
    view: str
    """The blueprint's name of the view."""
    turns: tuple[TurnRange, ...]
    """The turns to summarise, including those of the former summary."""
    former: int | None = None
    """Sequence of the earlier summary that it absorbs; None if there is none."""
    characters: int
    """Total length of the source texts in code points."""
    trigger: SummaryTrigger | None = None
    """Why it is due; None if the view includes as many turns as it can, and in older records."""


class HistorySummarised(EventModel):
    """A model summarised the older turns of a view; the summary replaces them there."""

    type: ClassVar[str] = "turnlog.history-summarised.v1"
    leaf: ClassVar[str] = "memory"
    sentence: ClassVar[str] = "{view}: {turns|turns} as {summary|content}"

    turn: int
    """The turn that continues after the summary."""
    call: str
    """The call that produced it."""
    view: str
    """The blueprint's name of the view."""
    summary: Content
    """The text that prompts include instead of the turns."""
    turns: tuple[TurnRange, ...]
    """The summarised turns, including those of the former summary."""
    former: int | None = None
    """Sequence of the earlier summary that it absorbed; None if there was none."""
    phases: tuple[str, ...] = ()
    """The phases of those turns and the phase it was made in; the summary is used only where all of
    them are visible.
    """
    inputs: WordDigest
    """Digest of the request that the summary answers."""
    model: str
    """The model name as passed to litellm."""
    cost: AttemptCost
    """Cost of the attempt that answered."""


class SummaryFailed(EventModel):
    """A summary failed; the turn continues without it, and the next turn may try again."""

    type: ClassVar[str] = "turnlog.summary-failed.v1"
    leaf: ClassVar[str] = "memory"
    sentence: ClassVar[str] = "{view} {code}: {detail}"

    turn: int
    """The turn that continues."""
    view: str
    """The blueprint's name of the view."""
    code: str
    """The failure code of its call, or `empty`, `no-shorter`, `withdrawn`."""
    detail: str
    """The reason for people."""


class SummaryUndone(EventModel):
    """A summary is no longer used; windows show the original turns again."""

    type: ClassVar[str] = "turnlog.summary-undone.v1"
    leaf: ClassVar[str] = "memory"
    sentence: ClassVar[str] = (
        "{view}: summary of event {sequence}[ · turn {turn}] {cause|else:asked}"
    )

    sequence: int
    """Sequence of the event with the summary."""
    view: str
    """The blueprint's name of the view."""
    cause: Literal["asked", "excluded", "redacted"] = "asked"
    """Whether a caller requested it, or a turn it covers was excluded or redacted."""
    turn: int | None = None
    """That turn."""


class MemoryPurged(EventModel):
    """All turns so far are excluded from windows; the next call starts without history."""

    type: ClassVar[str] = "turnlog.memory-purged.v1"
    leaf: ClassVar[str] = "memory"
    sentence: ClassVar[str] = "no prompt includes turns up to {upto} any more"

    upto: int
    """The last of those turns."""


KnownMemoryEvent = SummaryBegun | HistorySummarised | SummaryFailed | SummaryUndone | MemoryPurged
"""The events of summaries and purges that this release writes and reads."""
