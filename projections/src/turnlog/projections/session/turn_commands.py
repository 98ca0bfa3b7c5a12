from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from turnlog.events.tokens import ToolRequest
from turnlog.events.tool import ToolReturned, ToolsSnapshotted
from turnlog.events.turn import FinishReason
from turnlog.projections.session.attempting import AttemptRef, AttemptUsage
from turnlog.projections.session.state import ToolUse
from turnlog.projections.tools.planning import ParsedPlan


@dataclass(frozen=True, slots=True)
class AnswerCall:
    """Record a call's answer after which the turn continues with another call."""

    attempt: AttemptRef
    text: str
    finish: FinishReason
    spent: AttemptUsage
    tools: tuple[ToolRequest, ...] = ()
    """Tool calls that the answer requested."""
    offered_tools: Container[str] = ()
    """Names of the tools that were offered."""
    max_tools: int = 0
    """How many tool calls one answer may request."""
    plan: ParsedPlan | None = None
    """The plan in the answer; None where the call was not a plan call."""
    repairs: tuple[str, ...] = ()
    """Repairs that were needed to parse the answer."""


@dataclass(frozen=True, slots=True)
class SnapshotTools:
    """Pin the tools of a profile."""

    attempt: AttemptRef
    pinned: ToolsSnapshotted


@dataclass(frozen=True, slots=True)
class RequestSchemas:
    """Disclose the tools of the current profile in full again."""


@dataclass(frozen=True, slots=True)
class DisplayTurn:
    """Set how user interfaces show a turn."""

    turn: int
    text: str | None = None
    """Display form of the user's text; None leaves it unchanged."""
    reply: str | None = None
    """Display form of the reply; None leaves it unchanged."""


@dataclass(frozen=True, slots=True)
class StartTool:
    """Record that a tool is about to run."""

    attempt: AttemptRef
    use: ToolUse


@dataclass(frozen=True, slots=True)
class ReturnTool:
    """Record the outcome of a tool call."""

    attempt: AttemptRef
    use: ToolUse
    returned: ToolReturned
