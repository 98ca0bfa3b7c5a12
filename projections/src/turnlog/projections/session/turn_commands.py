"""Commands of a turn that goes on, of tools, and of how a turn is looked at."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from turnlog.events.tokens import ToolRequest
from turnlog.events.tool import ToolReturned, ToolsSnapshotted
from turnlog.events.turn import Finish
from turnlog.projections.session.attempting import Attempt, Spent
from turnlog.projections.session.state import ToolUse
from turnlog.projections.tools.planning import Planned


@dataclass(frozen=True, slots=True)
class AnswerCall:
    """The call has its answer, and the turn goes on."""

    attempt: Attempt
    text: str
    finish: Finish
    spent: Spent
    tools: tuple[ToolRequest, ...] = ()
    """What it asked for."""
    offered: Container[str] = ()
    """What it was offered."""
    most: int = 0
    """How many of these it may have."""
    planned: Planned | None = None
    """What it planned; none where it was not to."""
    repairs: tuple[str, ...] = ()
    """What had to be mended before it could be read."""


@dataclass(frozen=True, slots=True)
class SnapshotTools:
    """Pin the tools of a profile."""

    attempt: Attempt
    pinned: ToolsSnapshotted


@dataclass(frozen=True, slots=True)
class RequestSchemas:
    """Have the tools of the session's profile told in full again."""


@dataclass(frozen=True, slots=True)
class DisplayTurn:
    """Keep how a turn is to be looked at."""

    turn: int
    text: str | None = None
    """How what was said is drawn; none leaves it as it was."""
    reply: str | None = None
    """How the reply is drawn; none leaves it as it was."""


@dataclass(frozen=True, slots=True)
class StartTool:
    """Say that a tool is about to be run."""

    attempt: Attempt
    use: ToolUse


@dataclass(frozen=True, slots=True)
class ReturnTool:
    """Say what came of a tool."""

    attempt: Attempt
    use: ToolUse
    returned: ToolReturned
