"""Progress of the open turn: calls it went on from, its plan, and the tools it asked for.

This is the part of the fold that turns of several calls add. What it gives is gone with the turn:
once a turn is settled nothing but its texts matters to a window.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from turnlog.events.call import CallCompleted
from turnlog.events.envelope import Recorded
from turnlog.events.plan import PlanMade, StepPlanned
from turnlog.events.tool import ToolCalled, ToolReturned, ToolStarted
from turnlog.projections.session.replacing import replace
from turnlog.projections.session.standing import said, stands
from turnlog.projections.session.state import OpenTurn, PlannedStep, ToolUse

Progress = CallCompleted | PlanMade | StepPlanned | ToolCalled | ToolStarted | ToolReturned
"""What moves a turn on without settling it."""


def advanced(opened: OpenTurn, recorded: Recorded, event: Progress) -> OpenTurn:
    """Give the open turn after one of its own events."""
    match event:
        case CallCompleted(text=None):
            return opened
        case CallCompleted(attempt=attempt):
            acted = opened.acted + (opened.plan is not None)
            calls = opened.calls
            return replace(opened, answered=calls, begun=attempt, context=None, acted=acted)
        case PlanMade():
            return replace(opened, plan=())
        case StepPlanned(goal=goal, tools=tools):
            step = PlannedStep(stands(recorded, "goal", goal), tools)
            return replace(opened, plan=(*(opened.plan or ()), step))
        case ToolCalled(call=call, id=id, tool=tool):
            use = ToolUse(call, id, tool, recorded.stream_sequence)
            return replace(opened, tools=(*opened.tools, use))
        case ToolStarted(attempt=attempt):
            return _used(opened, event, lambda use: replace(use, started=attempt))
        case ToolReturned(text=text):
            back = said(recorded, "text", text)
            return _used(opened, event, lambda use: replace(use, returned=True, said=back))
        case _ as never:
            assert_never(never)


def _used(
    opened: OpenTurn, event: ToolStarted | ToolReturned, change: Callable[[ToolUse], ToolUse]
) -> OpenTurn:
    named = (event.call, event.id)
    tools = (change(use) if (use.call, use.id) == named else use for use in opened.tools)
    return replace(opened, tools=tuple(tools))


def pending(opened: OpenTurn) -> tuple[ToolUse, ...]:
    """Give the tools that were asked for and have not come back, in order."""
    return tuple(use for use in opened.tools if not use.returned)
