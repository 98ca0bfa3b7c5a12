"""The open turn: how far it has come, and what its plan, its tools and its resolver gave so far.

Nothing of it outlives the turn but what its tools gave, which the turn behind it may be told of.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from turnlog.projections.session.places import Brought, Said
from turnlog.projections.session.summaries import Summing


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a resolver said of the open turn."""

    intent: str | None
    """What is wanted."""
    entity: str | None
    """What kind of thing it is about; none for a question that leads nowhere."""
    identifiers: dict[str, JsonValue]
    """Which one."""
    results: Said
    """Where what was found stands, as JSON."""
    answer: Said
    """Where what is answered without a model stands."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of a turn's plan."""

    goal: Said
    tools: tuple[str, ...]
    """The tools it may take; any that is offered, where none is named."""
    given: int | None = None
    """Sequence of the return of the turn before that it is done by already."""


@dataclass(frozen=True, slots=True)
class Given:
    """What one tool gave."""

    said: Said
    """Where what the turn itself was told of it stands."""
    summary: Said
    """Where what later turns are told of it stands."""
    distilled: bool = False
    """Whether both are shorter than what it gave."""

    @property
    def in_short(self) -> tuple[Said, ...]:
        """Where texts of it stand that are shorter than what they tell of."""
        if self.distilled:
            return self.said, self.summary
        return () if self.summary == self.said else (self.summary,)


@dataclass(frozen=True, slots=True)
class Returns:
    """What the tools of the latest completed turn gave."""

    turn: int
    phase: str | None
    results: tuple[Given, ...]
    """Oldest first."""


@dataclass(frozen=True)
class ToolUse:
    """A tool that the open turn asked for."""

    call: str
    """The call whose answer asked for it."""
    id: str
    tool: str
    asked: int
    """Where the event lies in the stream that holds its arguments."""
    started: int = 0
    """The attempt that began it last; 0 before the first."""
    returned: bool = False
    failed: bool = False
    """Whether it came back without having done what it was asked for."""
    said: Said | None = None
    """Where what prompts say of it stands."""
    distilled: bool = False
    """Whether that is shorter than what it gave."""
    given: Given | None = None
    """The same where it was answered, for later turns."""


@dataclass(frozen=True)
class OpenTurn:
    """The turn that is being answered."""

    turn: int
    text: Said | None
    event: str
    """Id of the event that submitted or queued it."""
    released_at: str
    """When it became open; its deadline runs from here."""
    attempt: int = 0
    """The latest attempt; 0 before the first claim."""
    running: bool = False
    """Whether that attempt has not ended yet."""
    worker: str = ""
    """Who made the latest claim."""
    calls: int = 0
    """Calls of this turn whose prompt is fixed."""
    inputs: Brought | None = None
    """What it brought along; none where it came without any."""
    context: Said | None = None
    """Where the manifest of its latest call stands; digest is that of the request."""
    resolved: Resolved | None = None
    """What a resolver said of it, once one has been asked."""
    answered: int = 0
    """Calls up to the latest that was answered and that the turn went on from."""
    begun: int = 0
    """The attempt that answered that call; the ones behind it try the next."""
    plan: tuple[PlannedStep, ...] | None = None
    """What it is to be done in; none before there is a plan."""
    acted: int = 0
    """Steps of it whose tactic is known."""
    retaken: int = 0
    """The latest step that was taken once more, counted from 1."""
    tools: tuple[ToolUse, ...] = ()
    """Those it asked for so far."""
    summing: Summing | None = None
    """What it waits for before it goes on."""
    summed: tuple[str, ...] = ()
    """Views of which it had a summary made, or tried to."""
