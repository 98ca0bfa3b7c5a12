"""The tool calls of a turn: each is requested, perhaps approved, carried out, and returns once.

The type of its progress shows how far a tool use is. One that has not returned is pending:
it waits for a person, for a child session, or for the attempt that runs it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

from turnlog.events.content import Digest
from turnlog.events.model.tool_events import ApprovalDecision
from turnlog.projections.session.text_refs import MediaRef, TextRef

MAX_PRIOR_RESULTS: Final = 16
"""Most tool results of a turn that the next turn may include."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultRef:
    """The result of one tool, as prompts include it."""

    said: TextRef
    """Reference to the text for prompts of the same turn."""
    summary: TextRef
    """Reference to the text for prompts of later turns."""
    distilled: bool = False
    """Whether both texts are condensed."""
    brief: TextRef | None = None
    """Reference to the text that only names the result; None if it would be no shorter."""
    characters: int = 0
    """Length of the complete result."""
    media: tuple[MediaRef, ...] = ()
    """The pictures, recordings and files of the result."""

    @property
    def condensed_texts(self) -> tuple[TextRef, ...]:
        """References to those of the two texts that are shorter than the result."""
        if self.distilled:
            return self.said, self.summary
        return () if self.summary == self.said else (self.summary,)

    @property
    def shorter_refs(self) -> tuple[TextRef, ...]:
        """References to what may replace the text of the same turn, the longest first."""
        summary = (self.summary,) if self.summary != self.said else ()
        return (*summary, *((self.brief,) if self.brief else ()))


@dataclass(frozen=True, slots=True)
class PriorToolResults:
    """Tool results of the latest completed turn."""

    turn: int
    phase: str | None
    results: tuple[ToolResultRef, ...]
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class UndecidedApproval:
    """An approval that is not decided yet; until then the tool does not run."""

    number: int
    """Its number within the turn, from 1."""
    deadline: str
    """Without a decision by then the tool is refused, RFC 3339."""


@dataclass(frozen=True, slots=True)
class DecidedApproval:
    """An approval that a person gave or refused, or that the deadline refused."""

    number: int
    decision: ApprovalDecision
    decided_at: int
    """Stream position of the decision."""
    approved: Digest | None = None
    """Digest of the arguments that may run; None if the decision names none."""


ToolApproval = UndecidedApproval | DecidedApproval


@dataclass(frozen=True, slots=True)
class RequestedTool:
    """A tool that no attempt has started."""


@dataclass(frozen=True, slots=True)
class StartedTool:
    """A tool that an attempt started; it may have taken effect."""

    attempt: int
    """The latest attempt that started it."""


@dataclass(frozen=True, slots=True)
class ChildTurnRef:
    """The turn of a child session that a tool call of the open turn requests."""

    session: str
    """Id of the child session."""
    turn: int
    """Number of the turn in it."""
    sequence: int
    """Sequence of the event that requested it."""
    at: str
    """When it was requested, RFC 3339."""


ToolOutcome = Literal["accepted", "refused", "answered", "failed", "lost"]
"""How a tool returned; see `ToolReturned.outcome`."""

RAN_OUTCOMES: Final = frozenset[str | None]({"answered", "failed", "lost"})
"""Outcomes of a tool that took effect, or may have."""

_FAILED_OUTCOMES: Final = frozenset[ToolOutcome]({"failed", "refused"})


@dataclass(frozen=True, slots=True)
class ReturnedTool:
    """A tool that has returned, with any outcome."""

    outcome: ToolOutcome
    result: ToolResultRef | None
    """The result for prompts of this turn; None if it has no text."""

    @property
    def has_failed(self) -> bool:
        """Whether it is known not to have done its work."""
        return self.outcome in _FAILED_OUTCOMES


ToolProgress = RequestedTool | StartedTool | ChildTurnRef | ReturnedTool


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """A tool call that the open turn requested."""

    call: str
    """The model call whose answer requested it."""
    id: str
    tool: str
    asked: TextRef
    """Reference to its arguments."""
    approval: ToolApproval | None = None
    """The approval that it needs; None if it needs none."""
    progress: ToolProgress = field(default_factory=RequestedTool)
    alias: str | None = None
    """The name that models know it by; None if that is its own."""
    signature: TextRef | None = None
    """Reference to what the provider sent beside the call; None if it sent nothing."""

    @property
    def is_pending(self) -> bool:
        """Whether it has not returned."""
        return not isinstance(self.progress, ReturnedTool)

    @property
    def result(self) -> ToolResultRef | None:
        """The result for prompts of this turn, if it has returned with a text."""
        return self.progress.result if isinstance(self.progress, ReturnedTool) else None

    @property
    def is_approval_refused(self) -> bool:
        """Whether a person or the deadline refused it."""
        return isinstance(self.approval, DecidedApproval) and self.approval.decision == "refuse"


def list_reusable_results(uses: Iterable[ToolUse]) -> tuple[ToolResultRef, ...]:
    """Return the latest results that the next turn may include: those of tools that answered."""
    found = [
        use.progress.result
        for use in uses
        if isinstance(use.progress, ReturnedTool)
        and use.progress.outcome == "answered"
        and use.progress.result
    ]
    return tuple(found[-MAX_PRIOR_RESULTS:])
