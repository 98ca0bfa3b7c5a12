from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, assert_never

from turnlog.events.call import CallCompleted
from turnlog.events.envelope import Recorded
from turnlog.events.plan import PlanMade, StepPlanned
from turnlog.events.tool import ToolCalled, ToolReturned, ToolStarted
from turnlog.projections.session.programs import number_of_step, step_failed
from turnlog.projections.session.replacing import replace
from turnlog.projections.session.standing import said, stands
from turnlog.projections.session.state import (
    MOST_RETURNS,
    Given,
    OpenTurn,
    PlannedStep,
    Returns,
    Said,
    ToolUse,
)

Progress = CallCompleted | PlanMade | StepPlanned | ToolCalled | ToolStarted | ToolReturned
"""Events that continue a turn without settling it."""
_FAILED: Final = frozenset({"failed", "refused"})
"""Outcomes of a tool that is known not to have done its work."""


def advanced(opened: OpenTurn, recorded: Recorded, event: Progress) -> OpenTurn:
    match event:
        case CallCompleted(text=None):
            return opened
        case CallCompleted(attempt=attempt):
            return replace(_acted(opened), answered=opened.calls, begun=attempt, context=None)
        case PlanMade():
            return replace(opened, plan=())
        case StepPlanned(goal=goal, tools=tools, given=given):
            step = PlannedStep(stands(recorded, "goal", goal), tools, given)
            return replace(opened, plan=(*(opened.plan or ()), step))
        case ToolCalled(call=call, id=id, tool=tool):
            use = ToolUse(call, id, tool, recorded.stream_sequence)
            return replace(opened, tools=(*opened.tools, use))
        case ToolStarted(attempt=attempt):
            return _used(opened, event, lambda use: replace(use, started=attempt))
        case ToolReturned(text=text):
            back = said(recorded, "text", text)
            later = _given(recorded, event, back)
            failed = event.outcome in _FAILED
            short = event.treatment == "condensed"
            change = partial(
                replace, returned=True, failed=failed, said=back, distilled=short, given=later
            )
            return _used(opened, event, change)
        case _ as never:
            assert_never(never)


def _acted(opened: OpenTurn) -> OpenTurn:
    """Count the step whose tactic call was answered; a retried step is already counted."""
    if step_failed(opened):
        return replace(opened, retaken=opened.acted)
    return opened if opened.plan is None else replace(opened, acted=number_of_step(opened))


def _used(
    opened: OpenTurn, event: ToolStarted | ToolReturned, change: Callable[[ToolUse], ToolUse]
) -> OpenTurn:
    named = (event.call, event.id)
    tools = (change(use) if (use.call, use.id) == named else use for use in opened.tools)
    return replace(opened, tools=tuple(tools))


def _given(recorded: Recorded, event: ToolReturned, back: Said | None) -> Given | None:
    """Return the result for later turns, or None unless the tool answered."""
    if back is None or event.outcome != "answered":
        return None
    later = said(recorded, "summary", event.summary) or back
    return Given(back, later, event.treatment == "condensed")


def returns(turn: int, opened: OpenTurn | None, phase: str | None) -> Returns | None:
    """Return the tool results of a turn that is completed, or None where it has none."""
    given = [use.given for use in opened.tools if use.given] if opened else []
    return Returns(turn, phase, tuple(given[-MOST_RETURNS:])) if given else None


def pending(opened: OpenTurn) -> tuple[ToolUse, ...]:
    """Return the requested tools that have not returned, in order."""
    return tuple(use for use in opened.tools if not use.returned)
