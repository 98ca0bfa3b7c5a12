"""The frozen state of a session: what the rules and prompt assembly need, and nothing more.

The state refers to events instead of repeating their text. Its size is bounded by the widest
window: recent turns are kept one by one, older ones as runs. A turn in a session of ten thousand
turns therefore costs the same as in a session of ten. Runtime snapshots store the state as JSON by
field name, so a renamed field needs a new `FOLD_VERSION`. Classes that the fold replaces have no
slots, because `fast_replace` copies their `__dict__`.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from turnlog.projections.session.places import InputsRef, TextRef
from turnlog.projections.session.summaries import PendingSummary


@dataclass(frozen=True, slots=True)
class TurnResolution:
    """The answer of the resolver for the open turn."""

    intent: str | None
    """The intent that the resolver recognised."""
    entity: str | None
    """Kind of thing the turn is about, or None when the question is out of scope."""
    identifiers: dict[str, JsonValue]
    """Identifiers of that thing, by name."""
    results: TextRef
    """Reference to the results, as JSON."""
    answer: TextRef
    """Reference to the answer that is used when no model answers."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One step of the plan of a turn."""

    goal: TextRef
    tools: tuple[str, ...]
    """Tools the step may use; empty allows every offered tool."""
    given: int | None = None
    """Sequence of a tool result of the previous turn that already satisfies the step."""


@dataclass(frozen=True, slots=True)
class ToolResultRef:
    """The answered result of one tool, as prompts include it."""

    said: TextRef
    """Reference to the text for prompts of the same turn."""
    summary: TextRef
    """Reference to the text for prompts of later turns."""
    distilled: bool = False
    """Whether both texts are condensed."""

    @property
    def condensed_texts(self) -> tuple[TextRef, ...]:
        """References to those of the two texts that are shorter than the result."""
        if self.distilled:
            return self.said, self.summary
        return () if self.summary == self.said else (self.summary,)


@dataclass(frozen=True, slots=True)
class PriorToolResults:
    """Tool results of the latest completed turn."""

    turn: int
    phase: str | None
    results: tuple[ToolResultRef, ...]
    """Oldest first."""


@dataclass(frozen=True)
class ToolUse:
    """A tool call that the open turn requested."""

    call: str
    """The model call whose answer requested it."""
    id: str
    tool: str
    asked: int
    """Stream position of the event that holds its arguments."""
    started: int = 0
    """The latest attempt that started it; 0 before the first start."""
    returned: bool = False
    failed: bool = False
    """Whether it is known not to have done its work."""
    said: TextRef | None = None
    """Reference to the text for prompts of this turn."""
    distilled: bool = False
    """Whether that text is condensed."""
    given: ToolResultRef | None = None
    """The result for later turns; None unless the tool answered."""


@dataclass(frozen=True)
class OpenTurn:
    """The turn that is being answered.

    Nothing of it survives the turn except the results of its tools, which the next turn may
    include.
    """

    turn: int
    text: TextRef | None
    event: str
    """Id of the event that submitted or queued it."""
    released_at: str
    """When it became the open turn, RFC 3339; its deadline counts from here."""
    attempt: int = 0
    """Number of the latest attempt; 0 before the first claim."""
    running: bool = False
    """Whether that attempt is still running."""
    worker: str = ""
    """The worker that holds the latest claim."""
    calls: int = 0
    """Model calls of this turn whose prompt is recorded."""
    inputs: InputsRef | None = None
    """Reference to its inputs, or None where it has none."""
    context: TextRef | None = None
    """Reference to the manifest of the latest call; its digest is that of the request."""
    resolved: TurnResolution | None = None
    """The resolver's answer, once it is recorded."""
    answered: int = 0
    """Number of the latest call that was answered or given up, and after which the turn continued.
    """
    begun: int = 0
    """The attempt that made that call; later attempts work on the next call."""
    plan: tuple[PlannedStep, ...] | None = None
    """Steps of the plan, or None before there is a plan."""
    acted: int = 0
    """Steps whose tactic call was answered."""
    retaken: int = 0
    """The latest step that was retried, counted from 1."""
    tools: tuple[ToolUse, ...] = ()
    """Tool calls requested so far."""
    summing: PendingSummary | None = None
    """The summary it waits for before it continues."""
    summed: tuple[str, ...] = ()
    """Views for which this turn already requested a summary, successful or not."""
